"""Playing without a model: scores, episodes as text, and the speed that a task must have."""

import pathlib
import subprocess
import sys

from absl.testing import absltest
import jax
import jax.numpy as jnp
import numpy as np

from configs import base
from grpo import build
from grpo import keys
from grpo import tasks
from grpo.rollout import sampler
from grpo.study import play
from grpo.study import speed
from tests import episodes as runs

ROOT = pathlib.Path(__file__).resolve().parents[1]


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

  def test_an_episode_of_a_model_is_the_one_that_the_sampler_drew(self):
    """Two copies of a turn are in the windows of this one; what is seen depends on the noise."""
    config = build.plain(base.get_config('smoke'), {
        'window.turns': 3, 'model': dict(name='tabular', scale=1.0), 'task.drift': 0.5})
    actor = build.actor(config)
    params, key = actor.policy.init(keys.root(1)), keys.root(2)
    shown = list(play.sampled(actor, params, key))[1:]
    drawn = jax.jit(lambda params: sampler.sample(
        actor.policy, params, actor.task, actor.layout, actor.knobs, key, step=0, prompts=1,
        samples=1, temperature=1.0))(params)
    self.assertEqual(actor.layout.segments, 3)
    self.assertEqual(sum(turn.reward for turn in shown), float(drawn.rewards.sum()))
    self.assertEqual(shown[-1].over, 'solved' if drawn.success[0, 0] else 'failed')
    words = [actor.task.vocab.index(word) for turn in shown for word in turn.action.split()]
    mask = np.asarray(drawn.mask[0, 0])
    self.assertEqual(words, np.asarray(drawn.tokens[0, 0])[mask].tolist())
    ids = [int(actor.task.state_id(turn.state)) for turn in shown[:-1]]
    self.assertEqual(ids, np.asarray(drawn.state_id[0, 0])[mask][1:].tolist())

  def test_command(self):
    play_it = lambda *flags: subprocess.run(
        [sys.executable, '-m', 'scripts.play', '--config=configs/grpo.py:smoke,horizon', *flags],
        cwd=ROOT, text=True, capture_output=True)
    out = play_it('--seed=3')
    self.assertEqual((out.returncode, out.stderr),
                     (0, 'horizon: rules and knobs are in docs/tasks.md#horizon\n'))
    start, *lines = out.stdout.splitlines()
    self.assertRegex(start, r'^ok:m0 C\d   V\* 1\.000$')
    self.assertLen(lines, 8)
    self.assertRegex(lines[0], r'^1\. a\d -> ok c\d   \[reward 0\.00\]   V\* 1\.000$')
    self.assertRegex(lines[-1], r'\[reward 1\.00, solved\]   V\* 1\.000$')
    out = play_it('--policy=random', '--config.task.horizon=0')
    self.assertEqual((out.returncode, out.stdout), (2, ''))
    self.assertRegex(out.stderr, 'task.horizon: must be at least 1')

  def test_rate(self):
    out = play.rate(runs.build('arithmetic'), 256, repeats=2)
    self.assertEqual((out['turns'], out['batch']), (1, 256))
    self.assertGreater(out['steps_s'], 1000)  # the machine of a test may be busy
    self.assertEqual({name for name, _ in speed.TASKS}, set(tasks.__all__))


if __name__ == '__main__':
  absltest.main()
