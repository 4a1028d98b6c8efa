"""Prompts, checks, floors and the split of the countdown task."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo.tasks import countdown
from tests import episodes as runs


def ids(text):
  return [countdown.VOCAB.index(word) for word in text.split()]


def read(task, prompt, valid):
  """Numbers and target of a prompt, from its text."""
  words = task.render(prompt, valid).split()
  arrow = words.index('>')
  return [int(w) for w in words[:arrow]], int(''.join(words[arrow + 1:-1]))


class CountdownTest(parameterized.TestCase):

  def test_many_answers_are_right_and_only_the_exact_ones(self):
    numbers = jnp.asarray([3, 5, 2, 0])
    run = jax.jit(lambda tokens: countdown.evaluate(tokens, numbers))

    def value(text):
      tokens = ids(text)
      out, legal = run(jnp.asarray(tokens + [0] * (8 - len(tokens))))
      return int(out) if legal else None

    for text in ('3 5 + 2 * .', '5 3 + 2 * .', '2 5 3 + * .', '2 3 5 + * . 9 9'):
      self.assertEqual(value(text), 16, text)
    self.assertEqual((value('3 5 - 2 * .'), value('3 5 2 * * .')), (-4, 30))
    for text in ('3 5 + 2 *', '3 5 + .', '3 5 + 2 * 2 + .', '3 5 2 + .', '3 + 5 2 * .', '. 3', '',
                 '3 5 + 9 * .', '3 3 + 2 * .', '1 6 .', '3 5 > 2 * .'):
      self.assertIsNone(value(text), text)

  @parameterized.parameters(dict(numbers=2), dict(), dict(products=1), dict(products=0.5, mixed=1))
  def test_text_says_what_the_knobs_ask_and_the_expert_reaches_it(self, **knobs):
    task = runs.build('countdown')
    record = runs.episodes(task, 'expert', **knobs)
    self.assertEqual(runs.success(record), 1)
    for row in list(zip(record['prompt'], record['prompt_valid'], record['state_id'][:, 0]))[:200]:
      numbers, target = read(task, *row[:2])
      self.assertLen(numbers, knobs.get('numbers', 3))
      digits = sorted([0] * (3 - len(numbers)) + numbers, reverse=True)
      self.assertEqual(int(row[2]) - 1, target + 100 * int(''.join(map(str, digits))))
      if knobs.get('mixed'):
        self.assertEqual(numbers, sorted(numbers))

  def test_a_knob_changes_its_own_thing_only(self):
    task = runs.build('countdown')
    plain = runs.episodes(task, 'expert')
    for knobs in (dict(form=1.0), dict(mixed=0.5), dict(products=0.5)):
      other = runs.episodes(task, 'expert', **knobs)
      same = np.all(plain['prompt'] == other['prompt'], axis=1)
      self.assertEqual(same.all(), 'form' in knobs)
      for a, b in list(zip(plain['prompt'], other['prompt']))[:200]:
        self.assertEqual(sorted(a[:3]), sorted(b[:3]))
        if 'mixed' in knobs:
          np.testing.assert_array_equal(a[3:], b[3:])

  def test_split_is_disjoint_and_blind_to_order(self):
    task = runs.build('countdown')
    sides = [{tuple(sorted(read(task, *row)[0])) for row in zip(
        *(runs.episodes(task, 'expert', heldout=side)[k] for k in ('prompt', 'prompt_valid')))}
             for side in (0, 1)]
    self.assertFalse(sides[0] & sides[1])
    self.assertBetween(len(sides[0] | sides[1]), 160, 165)  # all sets of three: C(11, 3)

  def test_floors_and_exploits(self):
    easy, hard = runs.build('countdown', max_numbers=2), runs.build('countdown')
    knobs = dict(products=0.5, mixed=1.0)
    for task, given in ((easy, {}), (hard, knobs)):
      self.assertLess(runs.rates(task, count=100_000, **given)['success'], 1e-4)
      self.assertEqual(runs.rates(task, ids('.'), form=1.0, **given)['reward'], 0)
    # What one answer can reach is bounded by how often its numbers come up.
    self.assertBetween(runs.rates(easy, ids('9 1 + .'))['success'], 0.01, 0.03)
    for task, given, share in ((easy, {}, 0.50), (hard, knobs, 0.12)):
      record = runs.episodes(task, 'expert', **given)
      asked = [read(task, *row) for row in zip(record['prompt'], record['prompt_valid'])]
      self.assertAlmostEqual(np.mean([sum(n) == t for n, t in asked]), share, delta=0.04)
      self.assertIn(f'{share:.2f}', countdown.__doc__)

  def test_bad_sizes(self):
    for size in (1, 7):
      with self.assertRaisesRegex(ValueError, 'countdown: '):
        countdown.make(max_numbers=size)


if __name__ == '__main__':
  absltest.main()
