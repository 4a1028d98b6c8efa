"""Scores, extraction of answers, exact and numeric match."""

import fractions
import time

from absl.testing import absltest
from absl.testing import parameterized
import hypothesis
from hypothesis import strategies as st
import numpy as np

from grpo.verify import exact
from grpo.verify import extract
from grpo.verify import numeric
from grpo.verify import score


class ScoreTest(absltest.TestCase):

  def test_what_cannot_be_scored_is_not_0(self):
    scores = [score.RIGHT, score.wrong(), score.unscorable('no reference'), score.wrong('time')]
    values, valid = score.values(scores)
    np.testing.assert_array_equal(values, np.float32([1, 0, 0, 0]))
    np.testing.assert_array_equal(valid, [True, True, False, True])
    count = score.tally(scores)
    self.assertAlmostEqual(count['mean'], 1 / 3)  # of the three that are scored
    self.assertEqual((count['scored'], count['unscorable']), (3, 1))
    self.assertEqual(count['reasons'],
                     {'right': 1, 'wrong': 1, 'no reference': 1, 'time': 1})
    self.assertIsNone(score.tally([score.unscorable('x')])['mean'])

  def test_a_checker_that_always_raises_stops_the_run(self):
    def broken(text, reference):
      raise KeyError(text)
    scores = score.each(broken)(['1', '2'], ['1', '2'])
    self.assertEqual([s.value for s in scores], [None, None])
    self.assertEqual(scores[0].reason, 'checker raised KeyError')
    with self.assertRaisesRegex(RuntimeError, '2 of 2 .* KeyError'):
      score.require(scores)
    score.require(score.each(exact.verify)(['a', 'b'], ['a', 'c']))

  def test_readable_references(self):
    good, bad = score.readable(numeric.read, ['7', '', r'\frac{', None, 3])
    self.assertEqual(good, [0, 4])
    self.assertEqual(sorted(bad), [1, 2, 3])
    self.assertIn('frac', bad[2])

  def test_lengths_must_agree(self):
    with self.assertRaises(ValueError):
      score.each(exact.verify)(['a'], ['a', 'b'])


class ExtractTest(parameterized.TestCase):

  @parameterized.parameters(
      ('so <answer> 42 </answer>', '42'), ('<answer>1</answer> no: <ANSWER>2</ANSWER>', '2'),
      (r'thus \boxed{42}', '42'), (r'\boxed{1} then \boxed{\frac{1}{2}}', r'\frac{1}{2}'),
      (r'\boxed {\{1, 2\}}', r'\{1, 2\}'), ('work\n#### 42\n', '42'), ('#### 1\n#### 2', '2'),
      (r'<answer>3</answer> \boxed{4} #### 5', '3'), (r'\boxed{4} #### 5', '4'),
      (r'\boxed{4', None), ('<answer>4', None), ('42', None), ('<answer></answer>', None),
      ('####', None), ('</answer><answer>', None))
  def test_marked(self, text, answer):
    self.assertEqual(extract.marked(text), answer)

  @parameterized.parameters(
      ('it is 3.', '3'), ('3', '3'), ('1 2 3', '3'), ('so **3**', '3'), ('x = -3', '-3'),
      (r'\(3\).', '3'), ('cost: $1,234.50!', '$1,234.50'), ('2 + 1 = 3', '3'),
      ('12,34 it is', '12,34'), ('50%', '50%'), ('1/2 of it', '1/2'), ('.5', '.5'), ('1e3', '1e3'),
      ('3k', None), ('n3', None), ('2 + 3', None), ('x+3', None), ('2**3', None), ('3 + 4i', None),
      ('5 - 3', None), ('3^2', None), ('3(x)', None), ('none', None), ('', None), ('0x12', None))
  def test_last_number(self, text, number):
    self.assertEqual(extract.last_number(text), number)

  @parameterized.parameters(
      ('```python\na = 1\n```', 'a = 1\n'), ('```\na = 1\n```', 'a = 1\n'),
      ('```py\na\n```\nand\n```python\nb\n```\n', 'b\n'),
      ('```python\na\n```\nprints\n```\nb\n```\n', 'a\n'), ('```bash\nls\n```', None),
      ('a = 1', None), ('```python\na = 1', None), ('  ```python\n  a\n  ```', '  a\n'),
      ('```python\ns = "```"\n```', 's = "```"\n'))
  def test_code_block(self, text, code):
    self.assertEqual(extract.code_block(text), code)

  @parameterized.parameters('<answer>', '</answer>', r'\boxed{', '####\t', '```python\n', '1,', '-',
                            ' ', '1', '```', '{,}', '<answer>1</answer>', '\\')
  def test_long_texts_take_linear_time(self, part):
    text = part * 40_000
    start = time.process_time()
    extract.final_number(text)
    extract.code_block(text)
    numeric.verify(text, '1')
    self.assertLess(time.process_time() - start, 2.0)


class NumericTest(parameterized.TestCase):

  @parameterized.parameters(
      '1234', '1,234', '$1,234.00', r'\$1,234.00', '1{,}234', '1234.0', '+1234', '1 234', '1234.',
      '**1234**', 'x = 1234', '$1234$', r'\(1234\)', '2468/2', r'\frac{2468}{2}', '1.234e3',
      '01234', 'The answer is $1,234.00.', '<answer>1,234</answer>', r'\boxed{1{,}234}',
      '#### 1,234', '17 things, then 1234', 'It is 1234 apples.', r'\boxed{\frac{2468}{2}}',
      '- no; 1234')
  def test_are_1234(self, text):
    self.assertEqual(numeric.verify(text, '1234'), score.RIGHT)

  @parameterized.parameters(
      '234', '1.234', '12,34', '1,2345', '-1234', '1234%', 'n = 1234k', '1234k', '1234 or 4',
      '1234^2', '0x1234', '1,234.567.', '1/1234', '1234, no: 7', '', 'none', 'x1234', '1234 + 1i',
      '+-1234', '1234/0', '1234/1/1', r'\boxed{1234 or 7}', '<answer>x</answer> 1234')
  def test_are_not_1234(self, text):
    self.assertEqual(numeric.verify(text, '1234').value, 0.0)

  @parameterized.parameters(('0', '\u22120'), ('0', '-0.0'), ('3', '6/2'), ('1/2', '0.5'),
                            (r'\frac12', '2/4'), ('-1/2', r'-\frac{1}{2}'), (3, '3'), (0.5, '1/2'),
                            ('50%', r'50\%'))
  def test_equal_forms(self, reference, text):
    self.assertEqual(numeric.verify(text, reference), score.RIGHT)

  @parameterized.parameters('', None, r'\frac{', 'x', '3 or 4', '1e999999999')
  def test_unreadable_references(self, reference):
    self.assertIsNone(numeric.verify('3', reference).value)

  def test_tolerance_is_absolute(self):
    self.assertEqual(numeric.verify('3.14', '3.14159', tolerance=0.01), score.RIGHT)
    self.assertEqual(numeric.verify('3.14', '3.14159', tolerance=0.001).value, 0.0)

  @hypothesis.given(st.integers(-10 ** 12, 10 ** 12), st.integers(1, 999))
  def test_forms_of_a_number_are_equal(self, a, b):
    value = fractions.Fraction(a, b)
    for text in (f'{a}/{b}', rf'\frac{{{a}}}{{{b}}}', f'{a:,}/{b}'):
      self.assertEqual(numeric.parse(text), (value, ''))
    self.assertEqual(numeric.parse(f'${a:,}.50' if a >= 0 else f'-${-a:,}.50'),
                     (a + fractions.Fraction(1 if a >= 0 else -1, 2), ''))

  @hypothesis.given(st.text(max_size=30))
  def test_any_text_has_a_score(self, text):
    self.assertIn(numeric.verify(text, '7').value, (0.0, 1.0))
    self.assertIn(exact.verify(text, '7').value, (0.0, 1.0))


class ExactTest(parameterized.TestCase):

  @parameterized.parameters(('Paris', 'paris', 1.0), (' the  cat ', 'the cat', 1.0),
                            (r'so \boxed{Paris}', 'Paris', 1.0), ('it is Paris', 'Paris', 0.0),
                            ('', 'Paris', 0.0), ('Paris', '', None), ('Paris', None, None))
  def test_match(self, text, reference, value):
    self.assertEqual(exact.verify(text, reference).value, value)

  def test_case_can_matter(self):
    self.assertEqual(exact.verify('paris', 'Paris', fold=str).value, 0.0)


if __name__ == '__main__':
  absltest.main()
