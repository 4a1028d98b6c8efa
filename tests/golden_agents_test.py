"""Worked examples of credit for agents (golden_agents.json), in float64 and in float32."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo.objective import advantages
from grpo.objective import agents
from grpo.objective import anchors
from grpo.objective import gae
from grpo.objective import returns
from grpo.objective import trees
from tests import golden
from tests import worked

partial = functools.partial


class GaeTest(parameterized.TestCase):

  @golden.both_types
  def test_bilevel(self, f, tol):
    inputs, expected = worked.case('turn_and_bilevel_gae')
    mask = golden.row(np.array(inputs['mask'], bool))
    turn = golden.row(np.array(inputs['turn_id']))
    names = dict(gamma_turn='turn_discount', lam_turn='turn_lam', gamma_token='discount',
                 lam_token='lam')

    @jax.jit
    def run(reward, value):
      facts = worked.context(mask, values_PGK=value, turn_PGK=jnp.where(mask, turn, -1))
      numbers = {names[k]: v for k, v in inputs['bilevel'].items()}
      ones = dict(turn_lam=1.0, lam=1.0)
      return [advantages.critic(gae.bilevel_return(reward, mask, facts, **x), mask, facts)
              for x in (numbers, ones)]

    got, plain = run(golden.row(f(inputs['rewards'])), golden.row(f(inputs['values'])))
    np.testing.assert_allclose(np.ravel(got), expected['bilevel_token_advantage'], tol, tol)
    np.testing.assert_allclose(np.ravel(got)[[1, 4, 7]], expected['bilevel_turn_advantage'], tol,
                               tol)
    np.testing.assert_allclose(
        np.ravel(plain), expected['bilevel_equals_token_gae_when_all_gamma_and_lambda_are_1'], tol,
        tol)

  @golden.both_types
  def test_cross_trajectory(self, f, tol):
    inputs, expected = worked.case('cross_trajectory_gae')
    sizes = [len(row) for row in inputs['segment_values']]
    # One observation token between two windows: it must not count.
    gap = lambda rows, fill: np.concatenate([[*row, fill] for row in rows])[None, None]
    mask = gap([[1] * n for n in sizes], 0).astype(bool)
    segment = np.where(mask, gap([[s] * n for s, n in enumerate(sizes)], 0), -1)
    reward = np.zeros(mask.shape)
    reward[0, 0, -2] = 1.0

    @jax.jit
    def run(reward, value):
      facts = worked.context(mask, values_PGK=value, segment_PGK=segment)
      one = partial(gae.cross_segment_return, reward, mask, facts)
      adapt = partial(gae.adaptive_cross_segment_return, reward, mask, facts, alpha=1.5)
      out = dict(gamma1_lam1=one(lam=1.0), gamma1_lam0p9=one(lam=0.9),
                 gamma0p99_lam0p95=one(lam=0.95, discount=0.99),
                 whole_rollout_lambda_alpha1p5=adapt(),
                 per_segment_lambda_alpha1p5=adapt(length='segment'))
      return {k: advantages.critic(v, mask, facts) for k, v in out.items()}

    for name, got in run(f(reward), f(gap(inputs['segment_values'], 9.0))).items():
      want = expected[name]
      want = want if isinstance(want, list) else want['advantage']
      np.testing.assert_allclose(np.asarray(got)[mask], np.concatenate(want), tol, tol, name)

  @golden.both_types
  def test_potential(self, f, tol):
    inputs, expected = worked.case('potential_shaping')
    valid = np.ones((1, 1, 4), bool)

    @jax.jit
    def run(reward, phi):
      facts = worked.context(valid, potential_PGK=phi)
      one = partial(gae.potential_look_ahead, reward, valid, facts, discount=inputs['gamma'])
      return dict(shaping=one(n=0) - reward, return_shaped=one(n=None),
                  return_unshaped=returns.reward_to_go(reward, valid, facts, discount=0.9))

    got = run(golden.row(f(inputs['rewards'])), golden.row(f(inputs['potential'])))
    for name, want in expected.items():
      np.testing.assert_allclose(np.ravel(got[name]), want, tol, tol, name)


class AnchorTest(parameterized.TestCase):

  @golden.both_types
  def test_gigpo(self, f, tol):
    inputs, expected = worked.case('gigpo')
    rows = partial(worked.split, label=inputs['trajectory'])
    reward, valid = worked.ragged(rows(inputs['step_rewards']))
    names = worked.numbered(inputs['anchor_observation'])
    state = worked.ragged(rows(names), 0)[0].astype(np.uint32)

    @jax.jit
    def run(reward):
      facts = worked.context(valid, rewards_PGK=reward, state_id_PGK=state)
      step = returns.reward_to_go(reward, valid, facts, discount=inputs['gamma'])
      out = dict(step_returns=step)
      for name, normalise in (('mean_norm', 'mean'), ('mean_std_norm', 'mean_std')):
        parts = [anchors.gigpo(step, valid, facts, omega=omega, normalise=normalise)
                 for omega in (0.0, 1.0)]
        out[name] = dict(episode=parts[0], step=parts[1] - parts[0], total_omega1=parts[1])
      return out

    got = jax.tree.map(lambda x: np.asarray(x)[valid], run(f(reward)))
    np.testing.assert_allclose(got['step_returns'], expected['step_returns'], tol, tol)
    for name in ('mean_norm', 'mean_std_norm'):
      for part, want in expected[name].items():
        np.testing.assert_allclose(got[name][part], want, tol, tol, f'{name} {part}')

  @golden.both_types
  def test_hgpo(self, f, tol):
    inputs, expected = worked.case('hgpo')
    rows = partial(worked.split, label=inputs['trajectory'])
    step, valid = worked.ragged(rows(inputs['step_returns']))
    names = worked.numbered(inputs['observation'])
    state = worked.ragged(rows(names), 0)[0].astype(np.uint32)

    @jax.jit
    def run(step):
      facts = worked.context(valid, state_id_PGK=state)
      one = partial(anchors.hgpo, step, valid, facts, depth=inputs['K_extra_history'],
                    alpha=inputs['alpha'])
      return dict(mean_norm=one(), mean_biased_std_norm=one(normalise='mean_std'))

    for name, got in run(f(step)).items():
      np.testing.assert_allclose(np.asarray(got)[valid], expected[name], tol, tol, name)


class TurnTest(parameterized.TestCase):

  @golden.both_types
  def test_mt_grpo(self, f, tol):
    inputs, expected = worked.case('mt_grpo')
    reward = np.stack([inputs['turn1_reward'], inputs['outcome_reward']], axis=1)[None]
    valid = np.ones(reward.shape, bool)

    @jax.jit
    def run(reward):
      facts = worked.context(valid, rewards_PGK=reward)
      to_go = returns.reward_to_go(reward, valid, facts, discount=inputs['gamma'])
      return (agents.mt_grpo(reward, valid, facts, coef=inputs['coef'], eps=inputs['eps']),
              advantages.group_zscore(to_go, valid, facts, eps=inputs['eps']))

    got, cumulative = run(f(reward))
    np.testing.assert_allclose(got[0, :, 0], expected['A_turn1_tokens'], tol, tol)
    np.testing.assert_allclose(got[0, :, 1], expected['A_after_tool_tokens'], tol, tol)
    np.testing.assert_allclose(cumulative[0, :, 0], expected['cumulative_variant_turn1'], tol, tol)

  @golden.both_types
  def test_igpo(self, f, tol):
    inputs, expected = worked.case('igpo')
    gain = np.diff(inputs['answer_probability_per_prefix'], axis=1)
    np.testing.assert_allclose(gain, expected['info_gain'], 1e-12, 1e-12)
    reward = np.concatenate([gain, np.array(inputs['outcome_reward'])[:, None]], axis=1)[None]
    valid = np.ones(reward.shape, bool)
    run = jax.jit(lambda x: {joint: agents.igpo(x, valid, None, joint=joint)
                             for joint in ('joint', 'separate')})
    for joint, got in run(f(reward)).items():
      np.testing.assert_allclose(got[0], expected[f'{joint}_normalised_then_accumulated'], tol, tol)

  @golden.both_types
  def test_empg(self, f, tol):
    inputs, expected = worked.case('empg')
    entropy, valid = worked.ragged(worked.split(inputs['step_entropy'], inputs['episode']))
    # A group of two, 1 and -1: z-scores are theirs times sqrt(1/2) with divisor n - 1, so give them
    # back by eps: 1 / (sqrt(2) + eps) = 1.
    outcome = worked.ragged(worked.split(inputs['outcome_advantage'], inputs['episode']))[0]
    numbers = dict(k=inputs['k'], k_next=inputs['k_prime'], zeta=inputs['zeta'])

    @jax.jit
    def run(entropy, outcome):
      facts = worked.context(valid, entropy_PGK=entropy)
      # At index 2 the group has one member: every turn needs the outcome of both samples.
      return agents.empg(outcome, valid, facts, over='sequence', eps=1.0 - np.sqrt(2.0), **numbers)

    got = run(f(entropy), f(outcome))
    np.testing.assert_allclose(np.asarray(got)[valid], expected['zero_mean'], tol, tol)


class TreeTest(parameterized.TestCase):

  @golden.both_types
  def test_spo_and_treerl(self, f, tol):
    inputs, expected = worked.case('tree_advantages')
    leaf = f(list(inputs['leaf_rewards'].values()))
    outcome = np.stack([leaf, leaf], axis=1)[None]
    valid = np.ones(outcome.shape, bool)
    node = np.array([[[0, 0], [0, 1], [2, 2], [2, 3]]])

    @jax.jit
    def run(x):
      args = (x, valid, worked.context(valid, node_PGK=node))
      return dict(spo_tree_child_minus_parent=trees.spo_tree(*args),
                  treerl_unscaled=trees.treerl(*args, power=0.0),
                  treerl_divided_by_sqrt_num_leaves=trees.treerl(*args))

    for name, got in run(outcome).items():
      want = expected[name]
      np.testing.assert_allclose(got[0, :, 0], [want['a'], want['a'], want['b'], want['b']], tol,
                                 tol, name)
      np.testing.assert_allclose(got[0, :, 1], [want[k] for k in ('a1', 'a2', 'b1', 'b2')], tol,
                                 tol, name)

  @golden.both_types
  def test_tree_grpo(self, f, tol):
    inputs, expected = worked.case('tree_advantages')
    x = f(inputs['tree_grpo_rewards']).reshape(1, 6, 1)
    valid, node = np.ones(x.shape, bool), np.array([0, 0, 0, 3, 3, 3]).reshape(1, 6, 1)
    got = jax.jit(lambda x: trees.tree_grpo(x, valid, worked.context(valid, node_PGK=node)))(x)
    np.testing.assert_allclose(np.ravel(got), expected['tree_grpo']['total'], tol, tol)

  @golden.both_types
  def test_shared_prefix(self, f, tol):
    inputs, expected = worked.case('arpo_shared_prefix')
    # Branch 0 and 1 share chunk 0, branch 2 has its own. The example starts from advantages.
    x = f(np.repeat(np.array(inputs['branch_advantage'])[:, None], 2, axis=1)[None])
    valid = np.ones(x.shape, bool)
    node = np.array([[[0, 0], [0, 1], [2, 2]]])
    got = jax.jit(lambda x: trees.node_mean(x, valid, worked.context(valid, node_PGK=node)))(x)
    private = inputs['branch_advantage']
    shared = expected['shared_token_advantage']
    np.testing.assert_allclose(got[0], [[shared, private[0]], [shared, private[1]],
                                        [private[2], private[2]]], tol, tol)


if __name__ == '__main__':
  absltest.main()
