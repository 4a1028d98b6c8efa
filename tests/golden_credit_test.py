"""Worked examples of advantages and returns, in float64 and in float32."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo.objective import advantages
from grpo.objective import chunks
from grpo.objective import returns
from tests import golden
from tests import rollouts
from tests.golden import GOLDEN

partial = functools.partial


def groups(x, size):
  return np.reshape(x, (-1, size, 1))


def padded(rows, width):
  return [list(row) + [0.0] * (width - len(row)) for row in rows]


@partial(jax.jit, static_argnames=('function', 'bootstrap'))
def gae(reward, value, mask, last, numbers, *, function, bootstrap):
  """Returns and advantages [P,1,T] of trajectories that were cut at their end."""
  truncated = jnp.ones(mask.shape[:2], bool)
  context = rollouts.context(mask, values=value, bootstrap=last, truncated=truncated)
  target = function(reward, mask, context, bootstrap=bootstrap, **numbers)
  return target, advantages.critic(target, mask, context)


class AdvantageTest(parameterized.TestCase):

  @golden.both_types
  def test_grpo(self, f, tol):
    case = GOLDEN['grpo_outcome_advantage']
    expected = case['expected']

    @jax.jit
    def run(x, one):
      args = (x, jnp.ones(x.shape, bool), None)
      return {
          'unbiased_std_eps1e_6': advantages.group_zscore(*args, eps=1e-6),
          'unbiased_std_eps1e_4': advantages.group_zscore(*args, eps=1e-4),
          'biased_std_eps1e_6': advantages.group_zscore(*args, ddof=0, eps=1e-6),
          'no_std_drgrpo': advantages.group_center(*args),
          'group_mean_batch_unbiased_std_eps1e_4': advantages.group_mean_batch_std(*args, eps=1e-4),
          'singleton_recommended': advantages.group_zscore(one, jnp.ones(one.shape, bool), None),
      }

    for name, got in run(f(groups(case['inputs']['rewards'], 4)), f([[[0.7]]])).items():
      np.testing.assert_allclose(np.ravel(got), np.ravel(expected[name]), tol, tol)

  @golden.both_types
  def test_process_rewards(self, f, tol):
    case = GOLDEN['grpo_process_supervision']
    x, valid = f([[[0.2, 0.8, 1.0], [0.0, 0.5, 0.0]]]), np.array([[[1, 1, 1], [1, 1, 0]]], bool)
    # Ends of steps at tokens 1, 3, 4 and 2, 3; the last token of row 1 is after its last step.
    chunk = np.array([[[0, 0, 1, 1, 2], [0, 0, 0, 1, -1]]], np.int32)

    @jax.jit
    def run(x, valid):
      run = partial(advantages.process_zscore, x, valid, None)
      return dict(biased_std_eps0=chunks.spread(run(ddof=0), chunk),
                  unbiased_std_eps1e_6=chunks.spread(run(eps=1e-6), chunk))

    for name, got in run(x, valid).items():
      np.testing.assert_allclose(got[0], padded(case['expected'][name], 5), tol, tol)

  @golden.both_types
  def test_rloo(self, f, tol):
    case = GOLDEN['rloo_opo_maxrl']
    x = f(groups(case['inputs']['rewards'], 4))
    got = jax.jit(lambda *x: advantages.leave_one_out(*x, None))(x, np.ones(x.shape, bool))
    np.testing.assert_allclose(np.ravel(got), case['expected']['rloo'], tol, tol)

  @golden.both_types
  def test_reinforce_plus_plus(self, f, tol):
    case = GOLDEN['reinforce_plus_plus']
    lengths, total = case['inputs']['lengths'], case['inputs']['rewards']
    mask, x = np.zeros((1, 4, 4), bool), np.zeros((1, 4, 4))
    for i, (n, reward) in enumerate(zip(lengths, total, strict=True)):
      mask[0, i, :n], x[0, i, n - 1] = True, reward

    @jax.jit
    def run(x, mask, discount):
      x = returns.reward_to_go(x, mask, rollouts.context(mask), discount=discount)
      return advantages.batch_zscore(x, mask, None)

    got = run(f(x), mask, f(case['inputs']['gamma']))
    # The source divides sums by count + 1e-8, hence not 1e-10.
    np.testing.assert_allclose(got[0], case['expected']['rfpp'], max(tol, 1e-8), max(tol, 1e-8))


class ReturnTest(parameterized.TestCase):

  def gae(self, f, reward, value, mask=None, *, last=0.0, bootstrap='none', **numbers):
    reward, value = golden.row(f(reward)), golden.row(f(value))
    mask = np.ones(reward.shape, bool) if mask is None else golden.row(np.asarray(mask, bool))
    function = returns.adaptive_lambda_return if 'alpha' in numbers else returns.lambda_return
    numbers = {k: f(v) for k, v in numbers.items()}
    target, got = gae(reward, value, mask, f([[last]]), numbers, function=function,
                      bootstrap=bootstrap)
    return np.asarray(target)[0, 0], np.asarray(got)[0, 0]

  @golden.both_types
  def test_gae(self, f, tol):
    case = GOLDEN['gae_plain']
    reward, value = case['inputs']['rewards'], case['inputs']['values']
    for gamma in (1.0, 0.99):
      for lam in (1.0, 0.95, 0.0):
        if (name := f'gamma{gamma}_lam{lam}') in case['expected']:
          _, got = self.gae(f, reward, value, lam=lam, discount=gamma)
          np.testing.assert_allclose(got, case['expected'][name], tol, tol)
    zero = np.zeros(4)
    _, got = self.gae(f, zero, value, last=0.5, bootstrap='critic', lam=0.95, discount=0.99)
    name = 'truncated_bootstrap_V0p5_gamma0.99_lam0.95_reward0'
    np.testing.assert_allclose(got, case['expected'][name], tol, tol)
    _, got = self.gae(f, zero, value, bootstrap='repeat', lam=0.95, discount=1.0)
    np.testing.assert_allclose(got, case['expected']['egae_truncated_gamma1_lam0.95_reward0'],
                               tol, tol)

  @golden.both_types
  def test_observations_are_stepped_over(self, f, tol):
    case = GOLDEN['gae_skip_observation']
    inputs, expected = case['inputs'], case['expected']
    target, got = self.gae(f, inputs['rewards'], inputs['values'], inputs['mask'],
                           lam=inputs['lam'], discount=inputs['gamma'])
    np.testing.assert_allclose(got, expected['advantage'], tol, tol)
    np.testing.assert_allclose(target, expected['returns_before_whitening'], tol, tol)
    mask = np.asarray(inputs['mask'], bool)

    @jax.jit
    def whiten(target, mask, value):
      return advantages.critic_whiten(target, mask, rollouts.context(mask, values=value))

    white = whiten(golden.row(target), golden.row(mask), golden.row(f(inputs['values'])))
    white = np.asarray(white)[0, 0][mask]
    whitened = np.asarray(expected['whitened'])[mask]
    # The source divides sums by count + 1e-8 and whitens in another order.
    np.testing.assert_allclose(white, whitened, max(tol, 1e-7), max(tol, 1e-7))

  @golden.both_types
  def test_sao(self, f, tol):
    case = GOLDEN['sao_decoupled_gae']
    inputs, expected = case['inputs'], case['expected']
    target, got = self.gae(f, inputs['rewards'], inputs['values'], inputs['mask'], alpha=1.5)
    np.testing.assert_allclose(got, expected['advantage'], tol, tol)
    target, _ = self.gae(f, inputs['rewards'], inputs['values'], inputs['mask'], lam=1.0)
    np.testing.assert_allclose(target, expected['critic_target_lambda1'], tol, tol)

  @golden.both_types
  def test_adaptive_lambda(self, f, tol):
    # Value 1 on the first token and reward 1 on the last of l tokens: the deltas are -1, 0, ..., 1
    # and the advantage of the first token is lam^(l-1) - 1.
    cases = {}
    for name, lam in GOLDEN['length_adaptive_lambda']['expected']['table'].items():
      length, alpha = name.removeprefix('l=').split(',alpha=')
      if 1 < int(length) <= 100:
        cases.setdefault(float(alpha), []).append((int(length), lam))
    for alpha, table in cases.items():
      length = np.array([n for n, _ in table])[:, None, None]
      index = np.arange(100)[None, None]
      reward, value = f(index == length - 1), f((index == 0) & (length > 0))
      _, got = gae(reward, value, index < length, f(np.zeros(length.shape[:2])),
                   dict(alpha=f(alpha)), function=returns.adaptive_lambda_return, bootstrap='none')
      want = [lam**(n - 1) - 1.0 for n, lam in table]
      np.testing.assert_allclose(np.asarray(got)[:, 0, 0], want, tol, tol)

  @golden.both_types
  def test_turns(self, f, tol):
    case = GOLDEN['turn_and_bilevel_gae']
    inputs, expected = case['inputs'], case['expected']

    @jax.jit
    def run(mask, turn, reward, value):
      chunk, count = chunks.turn(mask, turn, turn, count=3)
      valid = chunks.tokens(chunk, count) > 0
      context = rollouts.context(valid, values=chunks.first(value, chunk, count))
      target = returns.lambda_return(
          chunks.total(reward, chunk, count), valid, context, lam=inputs['turn_gae']['lam'],
          discount=inputs['turn_gae']['gamma'], bootstrap='none')
      got = advantages.critic(target, valid, context)
      return chunks.spread(got, chunk), chunks.spread(target, chunk)

    got, target = run(golden.row(np.asarray(inputs['mask'], bool)),
                      golden.row(np.asarray(inputs['turn_id'])),
                      golden.row(f(inputs['rewards'])), golden.row(f(inputs['values'])))
    np.testing.assert_allclose(np.ravel(got), expected['turn_gae_advantage_broadcast'], tol, tol)
    np.testing.assert_allclose(np.ravel(target), expected['turn_gae_return_broadcast'], tol, tol)

  @golden.both_types
  def test_chunks(self, f, tol):
    case = GOLDEN['chunk_returns']
    inputs, expected = case['inputs'], case['expected']
    got, _ = self.gae(f, inputs['step_rewards'], inputs['values'], lam=1.0, discount=0.9)
    np.testing.assert_allclose(got, expected['mc_return'], tol, tol)
    # Chunks of 3 steps with 0.9 a step: 0.9^3 from one chunk to the next.
    value = np.asarray(inputs['values'])[expected['chunk_starts']]
    for lam, name in ((0.0, 'one_chunk_advantage'), (0.8, 'chunk_gae')):
      _, got = self.gae(f, expected['chunk_discounted_reward'], value, lam=lam, discount=0.9**3)
      np.testing.assert_allclose(got, expected[name], tol, tol)


if __name__ == '__main__':
  absltest.main()
