"""Playing without a model: scores, episodes as text, and the speed that a task must have."""

from absl.testing import absltest
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo import tasks
from grpo.study import play
from grpo.study import speed
from tests import episodes as runs


class PlayTest(absltest.TestCase):

  def test_scores_of_expert_and_chance(self):
    task = runs.build('horizon', max_turns=64)
    success, total, turns = play.scores(task, task.expert, 50)(dict(horizon=5), keys.root(0))
    for x, want in ((success, 1), (total, 1), (turns, 5)):
      np.testing.assert_array_equal(x, np.full(50, want))
    # One decisive turn, one right word of 22.
    score = play.scores(task, play.uniform(task), 4000)
    success, _, turns = score(dict(horizon=2, decisive=1), keys.root(0))
    self.assertAlmostEqual(success.mean(), 1 / len(task.vocab), delta=0.012)
    np.testing.assert_array_equal(turns, 2)

  def test_turns_are_an_episode_as_text(self):
    task = runs.build('horizon', max_turns=3)
    shown = list(play.turns(task, task.expert, keys.root(0), decisive=1))
    self.assertEqual([turn.over for turn in shown], ['', '', '', 'solved'])
    self.assertEqual([turn.reward for turn in shown], [0, 0, 0, 1])
    self.assertEqual((shown[0].action, shown[0].observation[:5]), ('', 'ok:m0'))
    for before, turn in zip(shown, shown[1:]):
      self.assertEqual(turn.action, f'a{int(before.observation[-1])}')
    lost = list(play.turns(task, lambda state, key: (jnp.zeros(1, jnp.int32), jnp.ones(1, bool)),
                           keys.root(0), decisive=1))
    self.assertEqual(lost[-1].over, 'failed')

  def test_rate(self):
    out = play.rate(runs.build('arithmetic'), 256, repeats=2)
    self.assertEqual((out['turns'], out['batch']), (1, 256))
    self.assertGreater(out['steps_s'], 1000)  # the machine of a test may be busy
    self.assertEqual({name for name, _ in speed.TASKS}, set(tasks.__all__))


if __name__ == '__main__':
  absltest.main()
