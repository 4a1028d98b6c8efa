"""Worked examples of credit for agents, through whole configs."""

import dataclasses
import functools
import importlib

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import build
from grpo import types
from grpo.objective import method
from tests import golden
from tests import rollouts
from tests import worked

partial = functools.partial


class ConfigTest(parameterized.TestCase):
  """The same numbers from a config and a rollout, through the whole of `credit`."""

  def credit(self, name, rollout, overrides, **facts):
    config = importlib.import_module(f'configs.{name}').get_config('smoke')
    slots = build.parts(config, overrides).method
    zero = jnp.zeros(types.stream(rollout.mask).shape)
    run = jax.jit(lambda r: method.credit(slots, r, old_logp_PGT=zero, **facts).advantages_PGT)
    return np.asarray(run(rollout))

  def test_gigpo(self):
    inputs, expected = worked.case('gigpo')
    rows = partial(worked.split, label=inputs['trajectory'])
    reward, valid = worked.ragged(rows(inputs['step_rewards']))
    names = worked.numbered(inputs['anchor_observation'])
    state = worked.ragged(rows(names), 0)[0].astype(np.uint32)
    # Two tokens a turn, the reward on the second, an observation behind them.
    wide = lambda x: np.stack([x, x, 0 * x], axis=3).reshape(1, 3, -1)
    late = np.stack([0 * reward, reward, 0 * reward], axis=3).reshape(1, 3, -1)
    turn = wide(np.broadcast_to(np.arange(4), valid.shape))
    rollout = rollouts.rollout(wide(valid).astype(bool), late.astype('f'), turn=turn)
    rollout = dataclasses.replace(rollout, state_id=jnp.asarray(wide(state))[:, :, None])
    for name in ('gigpo', 'gigpo_std'):
      got = self.credit(name, rollout, {}).reshape(1, 3, 4, 3)[valid]
      want = expected['mean_std_norm' if 'std' in name else 'mean_norm']['total_omega1']
      np.testing.assert_allclose(got, np.array(want)[:, None] * [1, 1, 0], 1e-5, 1e-5)

  def test_compaction(self):
    inputs, expected = worked.case('cross_trajectory_gae')
    # Windows of 6: two copied tokens, then the trained ones.
    value, valid = worked.ragged(inputs['segment_values'])
    front = lambda x: np.pad(x[0], ((0, 0), (2, 0))).reshape(1, 1, -1)
    mask = front(valid)
    reward = np.zeros(mask.shape, np.float32)
    reward[0, 0, -1] = 1.0
    rollout = rollouts.rollout(mask, reward, segments=3)
    for length, name in (('rollout', 'whole_rollout'), ('segment', 'per_segment')):
      got = self.credit('compaction_rl', rollout, {'method.returns.length': length},
                        values_PGT=jnp.asarray(front(value), jnp.float32),
                        last_PG=jnp.zeros((1, 1)))
      want = np.concatenate(expected[f'{name}_lambda_alpha1p5']['advantage'])
      np.testing.assert_allclose(got[mask], want, 1e-5, 1e-5)

  def test_turn_and_bilevel(self):
    inputs, expected = worked.case('turn_and_bilevel_gae')
    mask = golden.row(np.array(inputs['mask'], bool))
    rollout = rollouts.rollout(mask, golden.row(np.array(inputs['rewards'], 'f')),
                               turn=golden.row(np.array(inputs['turn_id'])))
    facts = dict(values_PGT=golden.row(jnp.array(inputs['values'], jnp.float32)),
                 last_PG=jnp.zeros((1, 1)))
    plain = {'method.advantages': dict(name='critic')}
    numbers = inputs['bilevel']
    got = self.credit('bilevel_gae', rollout, plain | {
        'method.returns.turn_discount': numbers['gamma_turn'],
        'method.returns.lam': numbers['lam_token']}, **facts)
    np.testing.assert_allclose(np.ravel(got), expected['bilevel_token_advantage'], 1e-5, 1e-5)
    got = self.credit('turn_ppo', rollout, plain | {'method.returns.discount': 0.95}, **facts)
    want = golden.GOLDEN['turn_and_bilevel_gae']['expected']['turn_gae_advantage_broadcast']
    np.testing.assert_allclose(np.ravel(got), want, 1e-5, 1e-5)


if __name__ == '__main__':
  absltest.main()
