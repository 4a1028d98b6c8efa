"""The contract of every task: one row a task and size."""

import importlib

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo import tasks
from grpo.tasks import interventions
from grpo.tasks import scenes
from tests import episodes as runs

# Name, module, static sizes, largest success rate of uniform tokens.
CASES = (
    ('arithmetic', 'arithmetic', {}, 0.002),
    ('arithmetic_easy', 'arithmetic', dict(max_digits=1), 0.01),
    ('arithmetic_hard', 'arithmetic', dict(max_terms=3, max_digits=2), 0.001),
    ('programs', 'programs', {}, 0.001),
    ('programs_hard', 'programs', dict(max_ops=2), 0.001),
    ('horizon', 'horizon', {}, 0.01),
    ('line', 'line', {}, 0.005),
    ('meeting', 'meeting', {}, 0.08),
    ('triage', 'triage', {}, 0.11),
    ('countdown', 'countdown', {}, 0.001),
    ('ladder', 'ladder', {}, 0.001),
    ('ladder_macro', 'ladder', dict(max_level=5, macro=3), 0.001),
    ('keychain', 'keychain', {}, 0.03),
    ('keychain_hard', 'keychain', dict(max_doors=3, max_distractors=3), 0.01),
    ('sokoban', 'sokoban', {}, 0.2),
    ('sokoban_hard', 'sokoban', dict(size=5, max_boxes=2, max_depth=12), 0.05),
)


class ContractTest(parameterized.TestCase):

  def test_every_name_is_a_task(self):
    for name in tasks.__all__:
      self.assertTrue(callable(importlib.import_module(f'grpo.tasks.{name}').make))

  @parameterized.named_parameters(*CASES)
  def test_shapes_padding_bounds_and_floor(self, module, sizes, floor):
    task = runs.build(module, **sizes)
    record = runs.episodes(task, 'uniform')
    n = runs.COUNT
    self.assertEqual(record['prompt'].shape, (n, task.prompt_len))
    self.assertEqual(record['observation'].shape, (n, task.max_turns, task.observation_len))
    for tokens, real in ((record['prompt'], record['prompt_valid']),
                         (record['observation'], record['valid'])):
      if not tokens.shape[-1]:
        continue
      self.assertTrue(np.all(real[..., -1]))
      self.assertTrue(np.all(real[..., 1:] >= real[..., :-1]), 'padding is on the left')
      self.assertTrue(np.all(tokens[real] > 0))
      self.assertTrue(np.all(tokens[~real] == 0))
      self.assertTrue(np.all(tokens < len(task.vocab)))
    self.assertEqual(record['reward'].dtype, np.float32)
    self.assertTrue(np.all((record['reward'] >= 0) & (record['reward'] <= 1)))
    self.assertTrue(np.all(np.isin(record['success'], (0, 1))))
    self.assertFalse(np.any(record['terminated'] & record['truncated']))
    self.assertTrue(np.all(record['alive'][:, 0]))
    ended = (record['terminated'] | record['truncated']) & record['alive']
    self.assertTrue(np.all(ended.sum(axis=1) == 1), 'every episode ends once, inside max_turns')
    self.assertTrue(np.all(record['state_id'] > 0))
    self.assertLessEqual(runs.success(record), floor)
    distinct = len(np.unique(record['prompt'], axis=0))
    self.assertGreaterEqual(distinct, 4)
    if task.prompt_space is not None:
      self.assertLessEqual(distinct, task.prompt_space)

  @parameterized.named_parameters(*CASES)
  def test_text_of_any_tokens_can_be_read_again(self, module, sizes, _):
    plain = runs.build(module, **sizes)
    for task in (plain, interventions.wrap(plain)) if plain.max_turns > 1 else (plain,):
      ids = [*range(len(task.vocab)), *reversed(range(len(task.vocab)))]
      self.assertEqual(scenes.parse(task, task.render(ids)), ids)
      real = np.arange(len(ids)) % 3 > 0
      self.assertEqual(scenes.parse(task, task.render(ids, real)), np.asarray(ids)[real].tolist())

  @parameterized.named_parameters(*CASES)
  def test_same_key_same_episode_bit_for_bit(self, module, sizes, _):
    task = runs.build(module, **sizes)
    first = runs.episodes(task, 'uniform', seed=3)
    for order in (1, -1):
      again = runs.episodes(task, 'uniform', seed=3, stride=order)
      jax.tree.map(np.testing.assert_array_equal, first, again)

  @parameterized.parameters('horizon', 'ladder', 'keychain', 'sokoban')
  def test_a_restored_state_goes_on_bit_for_bit(self, module):
    task = runs.build(module)

    @jax.jit
    def play(state):
      def turn(state, i):
        out = task.step(state, 1 + (i + jnp.arange(task.action_len)) % (len(task.vocab) - 1),
                        jnp.ones(task.action_len, bool), task.knobs)
        return out.state, out
      return jax.lax.scan(turn, state, 1 + jnp.arange(3))[1]

    first = play(jax.jit(task.reset)(keys.root(0), task.knobs)[0])
    stored = jax.tree.map(lambda x: np.array(x[-1]), first.state)
    one, other = (play(jax.tree.map(jnp.asarray, stored)) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, one, other)
    self.assertEqual(jax.tree.structure(stored), jax.tree.structure(first.state))

  @parameterized.named_parameters(*CASES)
  def test_expert_solves_it_and_knobs_compile_once(self, module, sizes, _):
    task = runs.build(module, **sizes)
    record = runs.episodes(task, 'expert')
    self.assertGreater(runs.success(record), 0.99)
    for shift in (0.5, 1.0):
      record = runs.episodes(task, 'expert', **{k: v + shift for k, v in task.knobs.items()})
      paid = record['reward'] * record['alive']
      self.assertGreaterEqual(paid.min(), 0)
      self.assertLessEqual(paid.sum(axis=1).max(), 1 + 1e-6)
    self.assertEqual(record['traces'], 1)

  @parameterized.parameters(('ladder', ('.', '?')), ('sokoban', ('$', 'o', '+')),
                            ('keychain', ('locked', 'moved', 'took', 'nothing')))
  def test_the_last_observation_is_kept_and_shows_the_end(self, module, unfinished):
    task = runs.build(module)
    record = runs.episodes(task, 'expert')
    last = record['alive'].sum(axis=1) - 1
    seen = record['observation'][np.arange(runs.COUNT), last]
    words = np.asarray(task.vocab)[seen]
    self.assertFalse(np.isin(words, unfinished).any())
    self.assertTrue(np.isin(record['observation'], [task.vocab.index(w) for w in unfinished]).any())

  @parameterized.named_parameters(*CASES)
  def test_any_tokens_are_legal_and_actions_are_padded_on_the_right(self, module, sizes, _):
    task = runs.build(module, **sizes)

    @jax.jit
    def run(key, token, valid):
      state, *_ = task.reset(jax.random.fold_in(key, 0), task.knobs)
      out = task.step(state, jnp.full(task.action_len, token), jnp.full(task.action_len, valid),
                      task.knobs)
      return out.reward, task.expert(state, jax.random.fold_in(key, 1))

    for token in (-5, 0, len(task.vocab) - 1, 10**6):
      for valid in (False, True):
        reward, (action, real) = run(keys.root(0), token, valid)
        self.assertTrue(np.isfinite(reward))
    self.assertEqual(action.shape, (task.action_len,))
    self.assertEqual(action.dtype, jnp.int32)
    self.assertTrue(np.all(real[1:] <= real[:-1]), 'padding is on the right')
    if task.stop_ids:
      self.assertIn(int(action[int(real.sum()) - 1]), task.stop_ids)
    self.assertNotIn('_', task.render(action, real).split())


if __name__ == '__main__':
  absltest.main()
