"""Checkups of critics: exact values and Q of the turns played, ranks by hand, warm-ups."""

import functools
import math

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from configs import base
from grpo import build
from grpo import keys
from grpo.study import behaviour
from grpo.study import checkup
from grpo.tasks import horizon

ACTIONS, TURNS = 2, 3


@functools.cache
def parts():
  """Tables in a task of three turns, two of which decide; failures show half of the time."""
  config = base.get_config('smoke')
  config.task.horizon, config.task.actions, config.task.visibility = TURNS, ACTIONS, 0.5
  config.model = base.slot('tabular', scale=0.5)
  config.method.critic = base.value_critic()
  return build.parts(config)


@functools.cache
def reader():
  return checkup.Checkup(parts(), episodes=128)


def params(runs=2):
  """Policies and critics, one after the other; the critics are tables of noise."""
  roots = jnp.stack([keys.root(i) for i in range(runs)])
  policy = jax.vmap(lambda key: parts().policy.init(keys.stream(key, 'policy')))(roots)
  critic = jax.vmap(lambda key: parts().critic.init(keys.stream(key, 'critic')))(roots)
  noise = 0.2 * np.random.default_rng(0).standard_normal(critic['table'].shape)
  return policy, {'table': critic['table'] + jnp.asarray(noise, jnp.float32)}


class CheckupTest(absltest.TestCase):

  def test_runs_side_by_side_are_those_alone(self):
    policy, critic = params()
    both = reader().run(policy, critic, dict(horizon=[2, 3]), [4, 5])
    self.assertEqual([[r['part'] for r in rows] for rows in both],
                     [['episode'] + ['turn'] * 2, ['episode'] + ['turn'] * 3])
    one = lambda tree: jax.tree.map(lambda x: x[1:], tree)
    alone = reader().run(one(policy), one(critic), dict(horizon=[3]), [5])[0]
    for a, b in zip(both[1], alone, strict=True):
      self.assertEqual(a.keys(), b.keys())
      for key in a.keys() - {'part'}:
        np.testing.assert_allclose(a[key], b[key], rtol=1e-4, atol=1e-6, err_msg=key)

  def test_values_and_q_are_exact(self):
    # V is the mean of Q over the two actions, of which the policy takes the right one with `right`.
    right_HN = jnp.asarray(np.random.default_rng(1).random((TURNS, 12 * ACTIONS)), jnp.float32)
    knobs = {k: jnp.asarray(v, jnp.float32)[None] for k, v in parts().knobs.items()}
    turn, place = np.divmod(np.arange(TURNS * 12 * ACTIONS), 12 * ACTIONS)
    ids = jnp.asarray(1 + turn * 12 * ACTIONS + place, jnp.uint32)[None, None]
    found = [reader()._solve(knobs, right_HN[None], ids, jnp.full(ids.shape, hit))
             for hit in (True, False)]
    value, good, bad = (np.asarray(x)[0, 0] for x in (found[0][0], found[0][1], found[1][1]))
    p = np.asarray(right_HN)[turn, place]
    np.testing.assert_allclose(p * good + (1 - p) * bad, value, atol=1e-6)
    exact = behaviour.solve(parts().knobs, right_HN, actions=ACTIONS)
    np.testing.assert_allclose(value, np.asarray(exact.V[:-1]).reshape(-1), atol=1e-6)
    damage = np.asarray(horizon.states(0, ACTIONS).damage)[place]
    np.testing.assert_allclose(good[(turn == TURNS - 1) & (damage == horizon.OK)], 1.0)


class ChoiceTest(absltest.TestCase):

  def test_by_hand(self):
    # Four episodes of two turns, all in state 7 at first; Q 1, 1, 0 and, in another state, 0.
    quality = np.array([[1.0, 0], [1, 0], [0, 0], [0, 0]])
    state = np.array([[7, 20], [7, 20], [7, 21], [8, 21]])
    predicted = np.array([[0.5, 0.9], [0.5, 0.1], [0.5, 0.4], [0.5, 0.0]])
    on = np.ones((4, 2), bool)
    # Pairs (0, 2) and (1, 2): 0.9 > 0.4 is right, 0.1 < 0.4 is wrong.
    np.testing.assert_array_equal(checkup.choice(predicted, quality, state, on), [[0], [2]])
    np.testing.assert_array_equal(
        checkup.choice(predicted[:3] * [1, 0], quality[:3], state[:3], on[:3]), [[0], [2]])
    on[1] = False
    np.testing.assert_array_equal(checkup.choice(predicted, quality, state, on), [[1], [1]])


class WarmUpTest(parameterized.TestCase):

  @parameterized.parameters(
      # The way starts at 0 and ends at 0.8: 0.72 lies between 0.5 and 0.8, at 0.22 / 0.3.
      ((-2.0, 0.5, 0.8, 0.7), 10 + 10 * 0.22 / 0.3), ((0.5, 0.6, 0.6, 0.6), 9.0),
      ((math.nan, 0.0, 1.0, math.nan), 19.0))
  def test_steps(self, explained, want):
    self.assertAlmostEqual(checkup.warm_up((0, 10, 20, 30), explained), want)

  @parameterized.parameters((0.0, 0.0), (-3.0, -1.0), (math.nan, math.nan), (0.4, 0.3))
  def test_none_helps(self, *explained):
    self.assertTrue(math.isnan(checkup.warm_up((0, 10), explained)))


if __name__ == '__main__':
  absltest.main()
