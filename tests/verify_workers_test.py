"""Checks in worker processes: hard limits, mathematics, and families of reasoning-gym."""

import concurrent.futures
import importlib.util
import inspect
import os
import re
import tempfile
import time
import unittest
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from grpo.verify import gym
from grpo.verify import math_answers
from grpo.verify import score
from grpo.verify import workers

HAS_MATH = importlib.util.find_spec('math_verify') is not None
HAS_GYM = importlib.util.find_spec('reasoning_gym') is not None
# Families whose module evaluates text, but that of a problem and never that of an answer.
REVIEWED = {'basic_arithmetic', 'bitwise_arithmetic', 'codeio', 'number_sorting',
            'propositional_logic'}


class PoolTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.pool = workers.Pool('plain', size=2, seconds=0.5)
    self.addCleanup(self.pool.close)

  def test_a_check_cannot_freeze_or_end_a_run(self):
    start = time.monotonic()
    replies = self.pool.map([('echo', 1), ('sleep', 60), ('fail', 'x'), ('end',), ('echo', [2])])
    self.assertEqual(replies, [
        workers.Reply(1), workers.Reply(error='time'), workers.Reply(error='ValueError: x'),
        workers.Reply(error='ended'), workers.Reply([2])])
    self.assertLess(time.monotonic() - start, 30)
    self.assertEqual(self.pool.map([]), [])

  def test_from_a_thread(self):
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
      self.assertEqual([r.value for r in threads.map(lambda n: self.pool.ask('echo', n), range(6))],
                       list(range(6)))

  def test_workers_are_confined(self):
    if not self.pool.confined:
      self.skipTest('no seccomp filter here (pyseccomp)')
    with tempfile.TemporaryDirectory() as folder:
      path = os.path.join(folder, 'x')
      self.assertStartsWith(self.pool.ask('write', path).error, 'PermissionError')
      self.assertFalse(os.path.exists(path))
    self.assertStartsWith(self.pool.ask('fill', 1 << 40).error, 'MemoryError')

  def test_a_worker_that_does_not_start_is_no_verdict(self):
    with workers.Pool('astrology', size=1) as pool:
      with self.assertRaisesRegex(RuntimeError, 'worker astrology does not start'):
        pool.ask('read', 'x')

  def test_bad_input(self):
    for bad in (dict(size=0), dict(seconds=0), dict(megabytes=1)):
      with self.assertRaises(ValueError):
        workers.Pool('plain', **bad)
    self.pool.close()
    with self.assertRaises(RuntimeError):
      self.pool.ask('echo', 1)


class MathTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    if not HAS_MATH:
      raise unittest.SkipTest('math-verify is not installed')
    cls.verify = math_answers.Verifier(size=1, seconds=4.0)
    cls.addClassCleanup(cls.verify.close)

  def test_equivalence(self):
    table = [
        ('3', '3', 1), ('3', 'x = 3', 1), ('3', '**3**', 1), ('3', '6/2', 1), ('3', 'n = 3k', 0),
        ('3', '3k', 0), ('3', '3 or 4', 0), ('3', '', 0), ('3', 'no idea', 0),
        (r'\frac{1}{2}', '0.5', 1), (r'\frac{1}{2}', r'\frac12', 1), (r'\frac{1}{2}', '2/4', 1),
        ('(1,2)', '(1,2)', 1), ('(1,2)', '[1,2]', 0), ('(1,2)', '(2,1)', 0),
        (r'\{1,2\}', r'\{2,1\}', 1), (r'\{1,2\}', '1', 0), ('1', r'\{1,2\}', 0),
        ('x^2+2x+1', '(x+1)^2', 1), (r'\frac{\sqrt{2}}{2}', r'\frac{1}{\sqrt{2}}', 1),
        ('7', r'so it is \boxed{7}', 1), ('7', '<answer>14/2</answer> not 8', 1),
        *[('1234', x, 1) for x in ('1,234', '$1,234.00', r'\$1,234.00', '1{,}234', '1234.0',
                                   '+1234', '1 234')],
        *[('1234', x, 0) for x in ('234', '1.234', '12,34', '1,2345')],
        ('0', '\u22120', 1), ('0', '-0.0', 1), (r'\frac{', '7', None), ('', '7', None),
        (None, '7', None)]
    scores = self.verify([text for _, text, _ in table], [gold for gold, _, _ in table])
    wrong = [(row, s) for row, s in zip(table, scores) if s.value != row[2]]
    self.assertEmpty(wrong)

  def test_readable_references(self):
    good, bad = score.readable(self.verify.read, ['7', '', r'\frac{', 'x+1'])
    self.assertEqual((good, sorted(bad)), ([0, 3], [1, 2]))

  def test_what_takes_for_ever_is_0_and_the_next_is_scored(self):
    start = time.monotonic()
    scores = self.verify(['9^{9^{9^{9}}}', '2'], ['7', '2'])
    self.assertEqual(scores, [score.wrong('time'), score.RIGHT])
    self.assertLess(time.monotonic() - start, 60)

  def test_in_threads(self):
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
      for scores in threads.map(lambda _: self.verify(['x+x'], ['2x']), range(4)):
        self.assertEqual(scores, [score.RIGHT])

  def test_a_checker_that_raises_is_unscorable(self):
    failed = workers.Reply(error='ImportError: x')
    with (mock.patch.object(self.verify._pool, 'map', lambda requests: [failed] * len(requests)),
          mock.patch.object(self.verify._pool, 'ask', lambda *request: failed)):
      scores = self.verify(['x', 'y'], ['2x', '2y'])
    self.assertEqual(scores, [score.unscorable('checker raised ImportError')] * 2)
    with self.assertRaises(RuntimeError):
      score.require(scores)

  def test_who_makes_the_checker_raise_is_wrong(self):
    failed = workers.Reply(error='ValueError: x')
    with mock.patch.object(self.verify._pool, 'map', lambda requests: [failed] * len(requests)):
      scores = self.verify(['y', 'y'], ['2x', r'\frac{'])
    self.assertEqual(scores, [score.wrong('checker raised ValueError'),
                              score.unscorable('checker raised ValueError')])


class FormsTest(parameterized.TestCase):
  """What an answer may be made of, where reasoning-gym evaluates it."""

  @parameterized.parameters(
      "__import__('os').system('true')", 'exec(chr(1))', 'x.evalf()', 'open(x)', '(lambda: 1)()',
      'x.__class__', '1 .real', 'a.b', 'print(1)', "f'{x}'", '[].append', 'globals()', 'a:=1',
      '1;1', "['a'.upper]", 'breakpoint()', 'Integral(x, x)', '[__build_class__]', "'a'+'b'",
      'x' * 30 + '(')
  def test_code_is_no_answer(self, answer):
    for family, pattern in gym.EVALUATED.items():
      self.assertIsNone(re.fullmatch(pattern, answer), family)

  @parameterized.parameters(
      ('countdown', '94*4 - 61 - 6'), ('puzzle24', '10*(8 - 5) - 6'),
      ('simple_integration', '-34*x**8/15 - 5*x/4 + C'), ('n_queens', '_ _ Q\n_ Q _'),
      ('intermediate_integration', '-4*(-2*x - 8)**(3/2)/3 + C'), ('string_insertion', 'EACAD'),
      ('intermediate_integration', 'exp(2*x)/2 + log(x)'), ('spiral_matrix', '[1, 2, 3]'),
      ('binary_matrix', '0 1\n1 2'), ('string_insertion', "['A', 'B']"))
  def test_answers_are(self, family, answer):
    self.assertIsNotNone(re.fullmatch(gym.EVALUATED[family], answer))

  def test_forms_are_matched_in_linear_time(self):
    start = time.process_time()
    for pattern in gym.EVALUATED.values():
      for part in ('1', '1.', 'x', '1x', 'sin', '(', ' ', "'", '_', '[', '1 '):
        for end in ('', '!', '..'):
          re.fullmatch(pattern, part * (20_000 // len(part)) + end)
    self.assertLess(time.process_time() - start, 3.0)

  def test_the_package_is_missing(self):
    with mock.patch.object(math_answers.importlib.util, 'find_spec', return_value=None):
      with self.assertRaisesRegex(ValueError, r"pip install -e '\.\[text\]'"):
        math_answers.Verifier()
    with mock.patch.dict('sys.modules', reasoning_gym=None):
      with self.assertRaisesRegex(ValueError, r"pip install -e '\.\[text\]'"):
        gym.entries('chain_sum', 1, 0)


@unittest.skipUnless(HAS_GYM, 'reasoning-gym is not installed')
class GymTest(absltest.TestCase):

  def test_all_families_that_evaluate_are_known(self):
    from reasoning_gym import factory
    found = {name for name, (kind, _) in factory.DATASETS.items()
             if re.search(r'\b(eval|exec|parse_expr|sympify|literal_eval)\(',
                          inspect.getsource(inspect.getmodule(kind)))}
    self.assertEqual(found, set(gym.EVALUATED) | REVIEWED)

  def test_only_a_full_score_counts(self):
    entries = gym.entries('countdown', 2, seed=0)
    answer = entries[0]['answer']
    with gym.Verifier('countdown', size=1) as verify:
      scores = verify([answer, f'<answer>{answer}</answer>', '1 + 1', 'garbage', '',
                       "__import__('os')", '9**9**9**9', answer],
                      [entries[0]] * 7 + [None])
    self.assertEqual([s.value for s in scores], [1, 1, 0, 0, 0, 0, 0, None])
    self.assertEqual(scores[4].reason, 'no answer')
    self.assertEqual(scores[5].reason, 'not of the form of an answer')

  def test_its_own_answers_earn_1(self):
    for family in ('gsm_symbolic', 'polynomial_multiplication'):
      entries = gym.entries(family, 4, seed=1)
      with gym.Verifier(family, size=1) as verify:
        scores = verify([e['answer'] for e in entries], entries)
      self.assertEqual(scores, [score.RIGHT] * 4, family)

  def test_bad_input(self):
    with self.assertRaisesRegex(ValueError, 'no family .sums.'):
      gym.entries('sums', 1, 0)
    with self.assertRaisesRegex(ValueError, 'no family .sums.'):
      gym.Verifier('sums')
    with self.assertRaisesRegex(ValueError, 'chain_sum: .*tallness'):
      gym.entries('chain_sum', 1, 0, tallness=3)


if __name__ == '__main__':
  absltest.main()
