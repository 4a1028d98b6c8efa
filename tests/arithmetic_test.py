"""Prompts, checks and the split of the arithmetic task."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.tasks import arithmetic
from tests import episodes as runs


def terms_of(task, prompt, valid):
  text = task.render(prompt, valid).replace(' ', '')
  return tuple(int(term) for term in text.rstrip('=').split('+'))


class ArithmeticTest(parameterized.TestCase):

  @parameterized.parameters((2, 1), (2, 2), (3, 1), (3, 2))
  def test_prompt_is_as_the_knobs_say_and_the_expert_is_right(self, terms, digits):
    task = runs.build('arithmetic', max_terms=3, max_digits=2)
    record = runs.episodes(task, 'expert', terms=terms, digits=digits)
    self.assertEqual(runs.success(record), 1)
    for prompt, valid, state_id in zip(record['prompt'][:50], record['prompt_valid'],
                                       record['state_id'][:, 0]):
      numbers = terms_of(task, prompt, valid)
      self.assertEqual([len(str(n)) for n in numbers], [digits] * terms)
      self.assertEqual(sum(numbers), int(state_id) - 1)

  def test_only_the_exact_answer_with_its_stop_counts(self):
    task = runs.build('arithmetic', max_digits=1)
    step = jax.jit(task.step)

    def score(text, answer=12):
      ids = [task.vocab.index(word) for word in text.split()]
      action = jnp.asarray(ids + [0] * (task.action_len - len(ids)))
      out = step(arithmetic.State(jnp.int32(answer)), action, jnp.arange(3) < len(ids), task.knobs)
      self.assertTrue(bool(out.terminated))
      self.assertEqual(float(out.reward), float(out.success))
      return float(out.reward)

    self.assertEqual((score('1 2 .'), score('7 .', 7), score('0 .', 0)), (1, 1, 1))
    for wrong in ('1 2', '1 .', '2 1 .', '. 1 2', '0 1 2', '1 2 0', '1 2 =', ''):
      self.assertEqual(score(wrong), 0, wrong)
    self.assertEqual(score('0 7 .', 7), 0, 'a leading zero')

  def test_scratch_is_free_and_the_expert_uses_half_of_it(self):
    task = runs.build('arithmetic', max_digits=1, scratch=4)
    self.assertEqual((task.action_len, task.vocab[-1]), (7, ';'))
    step = jax.jit(task.step)

    def score(text, answer=12):
      ids = [task.vocab.index(word) for word in text.split()]
      action = jnp.asarray(ids + [0] * (task.action_len - len(ids)))
      return float(step(arithmetic.State(jnp.int32(answer)), action,
                        jnp.arange(7) < len(ids), task.knobs).reward)

    for right in ('1 2 .', '; 1 2 .', '; ; ; ; 1 2 .', '5 ; 1 2 .', '1 2 ; 1 2 .'):
      self.assertEqual(score(right), 1, right)
    self.assertEqual(score('; ; ; ; ; 7 .', 7), 1, 'a short answer leaves more room')
    for wrong in ('; ; ; ; ; 1 2', '1 2 ; .', '5 1 2 .', '; 2 1 .', '; 1 2', '; ; ; ; ; ; ;', ''):
      self.assertEqual(score(wrong), 0, wrong)
    record = runs.episodes(task, 'expert')
    self.assertEqual(runs.success(record), 1)
    act = jax.vmap(lambda key: task.expert(arithmetic.State(jnp.int32(12)), key)[0])
    actions = np.asarray(jax.jit(act)(jax.random.split(keys.root(0), 900)))
    share = np.bincount(np.sum(actions == task.vocab.index(';'), axis=1)) / len(actions)
    np.testing.assert_allclose(share, np.full(3, 1 / 3), atol=0.08)

  @parameterized.parameters(1, 2)
  def test_split_is_disjoint_and_blind_to_order(self, digits):
    task = runs.build('arithmetic', max_digits=digits, folds=5)
    sides = []
    for side in (0, 1):
      record = runs.episodes(task, 'expert', heldout=side)
      sides.append({tuple(sorted(terms_of(task, *row)))
                    for row in zip(record['prompt'], record['prompt_valid'])})
    self.assertFalse(sides[0] & sides[1])
    if digits == 1:
      count = lambda pairs: sum(1 if a == b else 2 for a, b in pairs)
      self.assertEqual([count(pairs) for pairs in sides], [80, 20])
      self.assertEqual(task.prompt_space, 80)
      self.assertEqual({a + b for a, b in sides[0]}, set(range(19)))
      shares = np.bincount(runs.episodes(task, 'expert')['state_id'][:, 0] - 1) / runs.COUNT
      self.assertBetween(shares.max(), 0.09, 0.135)  # a constant answer passes on 9 of 80

  def test_a_table_is_not_split(self):
    task = runs.build('arithmetic', max_digits=1)
    self.assertNotIn('heldout', task.knobs)
    prompts = runs.episodes(task, 'expert')['prompt']
    self.assertLen(np.unique(prompts, axis=0), 100)
    self.assertEqual(task.prompt_space, 100)

  def test_products(self):
    plain = runs.episodes(runs.build('arithmetic', max_digits=1), 'expert')
    task = runs.build('arithmetic', max_digits=1, operators='+*')
    same = runs.episodes(task, 'expert')
    for name in ('prompt', 'state_id'):
      np.testing.assert_array_equal(plain[name], same[name])
    record = runs.episodes(task, 'expert', products=0.5)
    self.assertEqual(runs.success(record), 1)
    texts = [task.render(*row).replace(' ', '')[:-1]
             for row in zip(record['prompt'], record['prompt_valid'])]
    self.assertAlmostEqual(np.mean(['*' in text for text in texts]), 0.5, delta=0.04)
    for text, old, state_id in zip(texts, plain['prompt'], record['state_id'][:, 0]):
      numbers = [int(x) for x in text.replace('*', '+').split('+')]
      self.assertEqual(numbers, [old[0] - 1, old[2] - 1])
      self.assertEqual(np.prod(numbers) if '*' in text else sum(numbers), int(state_id) - 1)
    rate = lambda *tokens: runs.rates(task, *tokens, count=100_000, products=1.0)['success']
    self.assertAlmostEqual(rate(), 0.002, delta=0.0015)
    self.assertAlmostEqual(rate([1, 13]), 0.19, delta=0.01)

  def test_bad_sizes(self):
    for sizes in (dict(max_terms=1), dict(folds=3), dict(max_digits=0), dict(max_digits=9),
                  dict(operators='*'), dict(max_digits=5, operators='+*')):
      with self.assertRaisesRegex(ValueError, 'arithmetic: '):
        arithmetic.make(**sizes)


if __name__ == '__main__':
  absltest.main()
