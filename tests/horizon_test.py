"""Rules of the horizon task."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.tasks import horizon
from tests import episodes as runs


class HorizonTest(parameterized.TestCase):

  def follow(self, right, **knobs):
    """Status words, reward and end of an episode whose turns are right (1) or wrong (0)."""
    task = runs.build('horizon', max_turns=3)
    knobs = task.knobs | knobs
    step = jax.jit(task.step)
    state, prompt, _ = task.reset(keys.root(0), knobs)
    words = [task.vocab[prompt[0]]]
    for hit in right:
      token = 1 + (horizon.right_action(state, 4) + 1 - hit) % 4
      out = step(state, token[None], jnp.ones(1, bool), knobs)
      state = out.state
      words.append(task.vocab[out.observation[0]])
    return words, float(out.reward), bool(out.terminated)

  def test_bad_then_recover(self):
    knobs = dict(decisive=1, visibility=1.0, undo=1.0)
    self.assertEqual(self.follow([0, 1, 0], **knobs), (['ok:m0', 'hurt', 'ok', 'ok'], 1.0, True))
    self.assertEqual(self.follow([0, 0, 1], **knobs),
                     (['ok:m0', 'hurt', 'lost', 'lost'], 0.0, True))
    self.assertEqual(self.follow([0, 1], **knobs | dict(undo=0.0))[0], ['ok:m0', 'hurt', 'lost'])
    self.assertEqual(self.follow([0, 0], **knobs | dict(visibility=0.0))[0], ['ok:m0', 'ok', 'ok'])

  def test_only_the_last_turn_pays_and_hopeless_episodes_go_on(self):
    task = runs.build('horizon')
    for name, total in (('expert', runs.COUNT), ('uniform', 0)):
      record = runs.episodes(task, name, decisive=8)
      np.testing.assert_array_equal(record['reward'][:, :-1], 0)
      self.assertEqual(record['reward'].sum(), total)
      np.testing.assert_array_equal(record['terminated'][:, :-1], False)
      self.assertTrue(np.all(record['terminated'][:, -1]))
      self.assertFalse(np.any(record['truncated']))

  def test_a_lost_episode_ends_at_once_where_that_is_fatal(self):
    fatal = dict(decisive=1, fatal=1.0)
    self.assertEqual(self.follow([0], **fatal)[1:], (0.0, False))        # hurt: not lost yet
    self.assertEqual(self.follow([0, 1], **fatal)[1:], (0.0, True))
    self.assertEqual(self.follow([0, 1], decisive=1)[1:], (0.0, False))
    self.assertEqual(self.follow([0, 1, 1], **fatal | dict(undo=1.0))[1:], (1.0, True))
    self.assertEqual(self.follow([1, 1, 1], **fatal)[1:], (1.0, True))

  def earned(self, right, task=None, **knobs):
    """Rewards by turn and success of an episode of right (1) and wrong (0) actions."""
    task = task or runs.build('horizon')
    knobs = task.knobs | knobs
    step = jax.jit(task.step)
    state, *_ = task.reset(keys.root(0), knobs)
    rewards = []
    for hit in right:
      token = 1 + (horizon.right_action(state, 4) + 1 - hit) % 4
      out = step(state, token[None], jnp.ones(1, bool), knobs)
      state = out.state
      rewards.append(float(out.reward))
    self.assertTrue(out.terminated)
    return rewards, float(out.success)

  @parameterized.parameters(
      # Turns 0, 2, 4 and 6 decide. One by one: each right one pays a quarter.
      (1, '1.0.1.1.', [0.25, 0, 0, 0, 0.25, 0, 0.25, 0], 0),
      (1, '1.1.1.1.', [0.25, 0, 0.25, 0, 0.25, 0, 0.25, 0], 1),
      # In pairs: right and wrong is odd; wrong twice is even, and pays like right twice.
      (2, '1.0.0.0.', [0, 0, 0, 0, 0, 0, 0.5, 0], 0),
      (2, '1.1.0.0.', [0, 0, 0.5, 0, 0, 0, 0.5, 0], 1),
      (2, '0.1.1.0.', [0] * 8, 0),
      (4, '0.1.1.0.', [0, 0, 0, 0, 0, 0, 1, 0], 1), (4, '1.1.0.1.', [0] * 8, 0),
      (0, '1.1.1.1.', [0] * 7 + [1], 1), (0, '0.0.1.1.', [0] * 8, 0))
  def test_blocks_are_paid_by_parity_when_they_end(self, order, played, rewards, success):
    for routine in '01':
      hits = [int(x) for x in played.replace('.', routine)]
      self.assertEqual(self.earned(hits, decisive=4, order=order), (rewards, success))

  def test_blocks_with_style_and_with_turns_after_the_last(self):
    # Half is for style, of which cues decide; so only decisive turns 0 and 2 of 4 are compared.
    got, success = self.earned([1] * 8, decisive=2, order=1, delay=4, manner=0.0)
    self.assertEqual((got, success), ([0.5, 0, 0.5] + [0] * 5, 1))
    got, _ = self.earned([1] * 8, decisive=2, order=1, delay=4, manner=0.5)
    self.assertEqual((got[0], got[2]), (0.25, 0.25))

  def test_a_status_that_shows_names_an_odd_block(self):
    knobs = dict(decisive=3, order=3, visibility=1.0)
    self.assertEqual(self.follow([0, 0, 1], **knobs), (['ok:m0', 'hurt', 'ok', 'ok'], 1.0, True))
    self.assertEqual(self.follow([0, 1, 1], **knobs), (['ok:m0', 'hurt', 'hurt', 'ok'], 0.0, True))

  def test_an_order_of_blocks_changes_rewards_and_nothing_else_that_is_hidden_or_seen(self):
    task = runs.build('horizon')
    plain = runs.episodes(task, 'uniform', decisive=4)
    for order, floor in ((1, 0.25), (2, 0.625), (4, 0.53125)):
      record = runs.episodes(task, 'uniform', decisive=4, order=order)
      np.testing.assert_array_equal(record['observation'], plain['observation'])
      # One token in 22 is the right one.
      won = (1 + (2 / 22 - 1)**order) / 2
      self.assertAlmostEqual(record['reward'].sum() / runs.COUNT, won, delta=0.02)
      self.assertAlmostEqual(float((1 + (2 / 4 - 1)**order) / 2), floor)
      expert = runs.episodes(task, 'expert', decisive=4, order=order, drift=0.2)
      np.testing.assert_allclose(expert['reward'].sum(axis=1), 1)
      self.assertEqual(runs.success(expert), 1)
      self.assertIn(f'{floor:.3g}'[:5], horizon.__doc__)

  def test_the_last_observation_is_that_of_the_last_state(self):
    record = runs.episodes(runs.build('horizon'), 'expert')
    cue = record['observation'][:, -1, 1] - 1 - 4
    np.testing.assert_array_equal((record['state_id'][:, -1] - 1) % 48 // 12, cue)
    np.testing.assert_array_equal((record['state_id'][:, -1] - 1) // 48, 8)

  @parameterized.parameters((8, 4, 0, [0, 2, 4, 6]), (8, 1, 0, [0]), (8, 8, 0, list(range(8))),
                            (8, 3, 0, [0, 3, 6]), (8, 2, 4, [0, 2]), (8, 0, 0, []), (2, 1, 0, [0]))
  def test_decisive_turns(self, length, decisive, delay, want):
    knobs = dict(horizon=length, decisive=decisive, delay=delay)
    found = horizon.is_decisive(jnp.arange(length), knobs)
    self.assertEqual(np.flatnonzero(found).tolist(), want)

  def test_drift_is_told_when_it_happens_and_the_expert_follows(self):
    task = runs.build('horizon')
    record = runs.episodes(task, 'expert', drift=0.25, decisive=8)
    told = np.asarray([':m' in word for word in task.vocab])[record['observation'][..., 0]]
    self.assertAlmostEqual(told.mean(), 0.25, delta=0.02)
    self.assertEqual(runs.success(record), 1)

  def test_a_switch_is_told_once_and_room_for_it_changes_nothing_else(self):
    plain = runs.episodes(runs.build('horizon'), 'expert', drift=0.2)
    task = runs.build('horizon', goals=2)
    calm = runs.episodes(task, 'expert', drift=0.2)
    for name in ('prompt', 'observation'):
      np.testing.assert_array_equal(calm[name][..., 1:], plain[name])
    self.assertEqual({task.vocab[i] for i in np.unique(calm['observation'][..., 0])}, {'same'})
    record = runs.episodes(task, 'expert', drift=0.2, switch=0.25, decisive=8)
    # Nothing else that is seen moves; what is right does, and the expert follows.
    np.testing.assert_array_equal(record['observation'][:, :, 1], calm['observation'][:, :, 1])
    words = np.asarray(task.vocab)[record['observation'][..., 0]]
    told = words != 'same'
    self.assertAlmostEqual(told.mean(), 0.25, delta=0.02)
    self.assertEqual(runs.success(record), 1)
    goal = np.cumsum(told, axis=1) % 2
    np.testing.assert_array_equal(words[told], np.where(goal == 1, 'goal-1', 'goal-0')[told])
    np.testing.assert_array_equal((record['state_id'] - 1) // 48 % 2, goal)

  def test_marks(self):
    task = runs.build('horizon')
    for unmarked in (0.0, 1.0):
      cues = runs.episodes(task, 'expert', unmarked=unmarked)['prompt'][:, 1]
      self.assertEqual({task.vocab[cue][0] for cue in cues}, {'c' if unmarked else 'C'})

  def test_sources_add_words_and_lie_all_episode_long(self):
    plain = runs.episodes(runs.build('horizon'), 'expert', drift=0.2)
    task = runs.build('horizon', max_sources=3)
    for m in (1, 2, 3):
      record = runs.episodes(task, 'expert', sources=m, drift=0.2)
      np.testing.assert_array_equal(record['state_id'], plain['state_id'])
      for name in ('prompt', 'observation'):
        words, old = record[name], plain[name]
        np.testing.assert_array_equal((words > 0).sum(-1), 1 + m)
        np.testing.assert_array_equal(words[..., 3 - m], old[..., 0])
        for source in range(m):
          np.testing.assert_array_equal(words[..., 3 - source], old[..., 1])
    record = runs.episodes(task, 'expert', sources=3, drift=0.2, unreliable=0.25)
    np.testing.assert_array_equal(record['state_id'], plain['state_id'])
    self.assertEqual(runs.success(record), 1)
    honest = record['observation'][..., 1:] == plain['observation'][..., 1:]
    liars = ~honest.all(axis=1)
    self.assertAlmostEqual(liars.mean(), 0.25, delta=0.03)
    self.assertAlmostEqual(honest.mean(), 1 - 0.25 * 0.75, delta=0.02)

  def test_reseed_keeps_the_instance_and_changes_the_noise(self):
    task = runs.build('horizon')
    state, *_ = task.reset(keys.root(0), task.knobs)

    def turn(state, _):
      out = task.step(state, *task.expert(state, None), task.knobs)
      return out.state, out.observation

    follow = jax.jit(lambda state: jax.lax.scan(turn, state, None, length=8)[1])
    a, b = (task.reseed(state, keys.stream(keys.root(1), 'noise', i)) for i in range(2))
    self.assertEqual(int(task.state_id(a)), int(task.state_id(b)))
    self.assertFalse(np.array_equal(follow(a), follow(b)))
    np.testing.assert_array_equal(follow(a), follow(a))

  def test_exploits(self):
    task = runs.build('horizon')
    for tokens, success in (([], 0), ([horizon.ACTION + 4], 0), ([horizon.ACTION], 1 / 16),
                            ([horizon.ACTION + 3], 1 / 16)):
      found = runs.rates(task, tokens)
      self.assertAlmostEqual(found['success'], success, delta=0.007 * (success > 0))
      self.assertEqual((found['turns'], found['truncated']), (8, 0))
    self.assertEqual(runs.rates(task, [], decisive=0)['success'], 1)
    for undo, stated in ((0.5, 0.118), (1.0, 0.191)):
      self.assertAlmostEqual((1 / 4 + 3 / 4 * undo / 4) ** 2, stated, delta=0.0006)
      found = runs.rates(task, [horizon.ACTION], undo=undo)
      self.assertAlmostEqual(found['success'], stated, delta=0.01)
      self.assertIn(f'{stated:.3f}', horizon.__doc__)

  def test_bad_sizes(self):
    for sizes in (dict(actions=1), dict(max_turns=0), dict(max_sources=0), dict(goals=3)):
      with self.assertRaisesRegex(ValueError, 'horizon: '):
        horizon.make(**sizes)


if __name__ == '__main__':
  absltest.main()
