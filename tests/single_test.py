"""Baselines and surrogates against slow loops."""

import dataclasses
import functools
import types

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo.objective import baselines
from grpo.objective import drift
from grpo.objective import quadratic
from grpo.objective import ratios
from grpo.objective import surrogates
from grpo.objective import trust
from grpo.objective.context import Context
from tests import draws
from tests import reference_single as slow
from tests import rollouts

partial = functools.partial
TOL = 1e-5

GUIDED = 'minus_optimal_value'   # reads the reference, not the batch: has a test of its own
ADVANTAGES = {name: getattr(baselines, name) for name in baselines.__all__ if name != GUIDED}
ADVANTAGES['log_mean_exp'] = partial(baselines.log_mean_exp, tau=0.5)
ADVANTAGES['decoupled_zscore'] = partial(baselines.decoupled_zscore, weights=(1.0, 0.5))

NUMBERS = dict(
    importance={}, gmpo=dict(low=0.4, high=0.3), sapo=dict(positive=1.0, negative=1.05),
    dppo_tv=dict(low=0.1, high=0.15, cap=2.0), dppo_kl=dict(bound=0.05, cap=2.0), vespo={},
    squared=dict(tau=0.5), pmd=dict(tau=0.1), dro=dict(beta=0.3))
ROW = ('vespo', 'squared', 'pmd')   # their ratio is that of the row


@jax.jit
def advantages_of(x, valid, tokens, baseline, parts):
  lengths = jnp.sum(tokens, axis=2)
  context = Context(tokens_PGK=tokens, lengths_PG=lengths, truncated_PG=lengths < 0,
                    state_id_PGK=tokens, values_PGK=None, bootstrap_PG=None, baseline=baseline,
                    parts_PGN=parts)
  return {name: f(x, valid, context) for name, f in ADVANTAGES.items()}


@jax.jit
def surrogates_of(logp, old, advantage, mask):
  """Losses and gradients with respect to logp, and gates."""
  out = {}
  for name, numbers in (NUMBERS | dict(kl_cov=dict(coef=0.5, share=0.3))).items():
    module = quadratic if name in quadratic.__all__ else trust
    function = partial(getattr(module, name), **numbers)
    level = ratios.product if name in ROW else ratios.token

    def loss(logp, function=function, level=level):
      x = function(level(logp, old, mask, mask), logp, advantage, mask)
      return jnp.sum(x), x

    grad, value = jax.grad(loss, has_aux=True)(logp)
    log_ratio = level(logp, old, mask, mask)
    out[name] = value, grad, surrogates.gate(function, log_ratio, jnp.where(mask, logp, 0.0),
                                             advantage, mask)
  return out


def log_probs(rng, shape):
  """Log-probabilities of two policies, not far apart."""
  logp = -rng.gamma(1.0, 1.0, shape) - 0.05
  return logp, np.minimum(logp + 0.5 * rng.normal(size=shape), -0.01)


def groups_of(x_PG, valid_PG):
  """Rewards of the groups that have members."""
  return [[float(v) for v, ok in zip(row, on, strict=True) if ok]
          for row, on in zip(x_PG, valid_PG, strict=True) if on.any()]


def scatter(groups, valid_PG):
  """The other way round."""
  out, rest = np.zeros(valid_PG.shape), list(groups)
  for p, on in enumerate(valid_PG):
    if on.any():
      out[p][on] = rest.pop(0)
  return out


class BaselinesTest(parameterized.TestCase):

  @draws.times(25)
  def test_parity(self, shape, share, seed):
    rng = np.random.default_rng(seed)
    P, G, _ = shape
    valid = rng.random((P, G, 1)) < share
    x = rng.choice([0.0, 1.0, 0.1, 0.3], (P, G, 1)).astype('f')
    tokens = np.where(valid, rng.integers(1, 6, (P, G, 1)), 0)
    baseline, parts = rng.random((P, G, 1)).astype('f'), rng.random((P, G, 2)).astype('f')
    parts[..., 1] = np.round(parts[..., 1])
    got = {k: np.asarray(v)[..., 0] for k, v in advantages_of(
        x, valid, tokens, baseline, parts).items()}
    on = valid[..., 0]
    rewards = groups_of(x[..., 0], on)
    lengths = [[int(v) for v in g] for g in groups_of(tokens[..., 0], on)]
    by_group = lambda f, *more: [f(*args, TOL) for args in zip(rewards, *more, strict=True)]
    vectors = [list(row[keep]) for row, keep in zip(parts.astype(float), on, strict=True)
               if keep.any()]
    flat = [r for g in rewards for r in g]
    shifted = [float(v) for v in (x - baseline)[valid]]
    want = dict(
        length_weighted=by_group(slow.length_weighted, lengths),
        mean_over_mean=by_group(slow.mean_over_mean), best_of_group=by_group(slow.best_of_group),
        log_mean_exp=[slow.log_mean_exp(g, 0.5, 'others', TOL) for g in rewards])
    if flat:
      spread = max(flat) - min(flat) > TOL * max(flat)
      want |= dict(
          beta_density=slow.beta_density(rewards, TOL),
          informative_center=slow.informative_center(rewards, TOL),
          decoupled_zscore=slow.decoupled(vectors, (1.0, 0.5), 1e-4, TOL),
          center_whiten=slow.center_whiten(rewards, lengths, TOL),
          batch_center=[[(r - sum(flat) / len(flat)) * spread for r in g] for g in rewards])
    want = {k: scatter(v, on) for k, v in want.items()}
    if flat:
      again = np.zeros(on.shape)
      again[on] = slow.batch_zscore(shifted, 1e-8, TOL)
      want['baseline_zscore'] = again
      self.assertSameElements(want, ADVANTAGES)
    for name, y in want.items():
      np.testing.assert_allclose(got[name], y, 5e-4, 5e-4, err_msg=name)
    # What is off the mask does not matter.
    dirty = advantages_of(np.where(valid, x, np.nan), valid, tokens,
                          np.where(valid, baseline, np.inf), np.where(valid, parts, np.nan))
    for name, y in dirty.items():
      np.testing.assert_array_equal(np.asarray(y)[..., 0], got[name], name)
      np.testing.assert_array_equal(np.asarray(y)[~valid], 0.0, name)

  def test_flat_groups_get_exactly_nothing(self):
    shape = (3, 4, 5)
    rng = np.random.default_rng(0)
    for reward in (0.0, 0.1, 0.3, 1 / 3, 1.0, 1e6, -2.0):
      x = np.full(shape, reward, 'f')
      tokens = rng.integers(0, 5, shape)
      got = advantages_of(x, tokens > 0, tokens, 0 * x + np.float32(0.7), x[..., :2])
      for name, y in got.items():
        np.testing.assert_array_equal(y, 0.0, name)

  def test_extreme_rewards_stay_finite(self):
    rng = np.random.default_rng(0)
    for _ in range(20):
      x = rng.choice([0.0, 1e-6, 1.0, -1.0, 1e4, -1e4, 1 - 1e-6], (3, 4, 5)).astype('f')
      tokens = rng.integers(0, 5, x.shape)
      for name, y in advantages_of(x, tokens > 0, tokens, x[::-1], x[..., :2]).items():
        self.assertTrue(np.all(np.isfinite(y)), name)

  def test_beta_density_of_one_prompt(self):
    x = jnp.array([[[1.0], [0.0], [0.0], [1.0]]])
    got = baselines.beta_density(x, x >= 0, None)
    np.testing.assert_allclose(got[0, :, 0], [0.5, -0.5, -0.5, 0.5], 1e-5)   # law 1, 1: R - p

  def test_beta_density_of_rewards_whose_variance_underflows(self):
    shares = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]], 'f')[..., None]
    for scale in (1e-15, 1e-17, 1e-18, 1e-19, 1e-20, 1e-30):
      x = jnp.asarray(shares * np.float32(scale))
      got = np.asarray(baselines.beta_density(x, x >= 0, None))
      self.assertTrue(np.all(np.isfinite(got)), scale)
      if scale <= 1e-19:   # as if flat: R - p
        want = scale * (shares - shares.mean(axis=1, keepdims=True))
        np.testing.assert_allclose(got, want, 1e-5)

  @draws.times(25)
  def test_optimal_value(self, shape, share, seed):
    rng = np.random.default_rng(seed)
    valid = rng.random(shape) < share
    x, guide = rng.normal(size=shape).astype('f'), rng.normal(size=(shape[0], 3)).astype('f')
    context = dataclasses.replace(rollouts.context(valid), guide_PN=guide)
    got = baselines.minus_optimal_value(np.where(valid, x, np.nan), valid, context, beta=0.5)
    for p, row in enumerate(guide.astype(float)):
      value = 0.5 * np.log(np.mean(np.exp(row / 0.5)))
      np.testing.assert_allclose(got[p], np.where(valid[p], x[p] - value, 0.0), 1e-5, 1e-5)
    # A small beta is the best of them, a large one their mean; no overflow on the way.
    for beta, limit in ((1e-4, guide.max(axis=1)), (1e4, guide.mean(axis=1))):
      got = baselines.minus_optimal_value(0 * x, valid | True, context, beta=beta)
      np.testing.assert_allclose(got[:, 0, 0], -limit, 1e-2, 2e-2)

  def test_errors(self):
    x = jnp.ones((1, 2, 1))
    with self.assertRaisesRegex(ValueError, 'rewards of the reference'):
      baselines.minus_optimal_value(x, x > 0, rollouts.context(x > 0), beta=0.5)
    context = rollouts.context(x > 0)
    with self.assertRaisesRegex(ValueError, 'rewards by source'):
      baselines.decoupled_zscore(x, x > 0, context)


class SurrogatesTest(parameterized.TestCase):

  def test_slots_are_covered(self):
    self.assertSameElements([*trust.__all__, *quadratic.__all__], [*NUMBERS, 'kl_cov'])

  @draws.times(20)
  def test_parity(self, shape, share, seed):
    rng = np.random.default_rng(seed)
    logp, old = log_probs(rng, shape)
    mask = rng.random(shape) < share
    advantage = np.broadcast_to(rng.choice([1.0, -0.5, 0.3], (*shape[:2], 1)), shape).copy()
    args = [x.astype('f') for x in (logp, old, advantage)]
    got = jax.tree.map(np.asarray, surrogates_of(*args, mask))
    exact = [x.astype(float) for x in args]
    for name, numbers in NUMBERS.items():
      want = [slow.surrogate(name, *(x[p, g] for x in exact), mask[p, g], **numbers)
              for p in range(shape[0]) for g in range(shape[1])]
      for i in (0, 1):
        np.testing.assert_allclose(got[name][i], np.reshape([w[i] for w in want], shape), 2e-4,
                                   1e-4, err_msg=name)
    if mask.any():
      tokens = np.argwhere(mask)
      cov = slow.covariance(*(x[mask] for x in (exact[0], exact[2])))
      number = slow.part(0.3, len(tokens))
      order = sorted(range(len(cov)), key=lambda i: -cov[i])
      if len(cov) == number or cov[order[number - 1]] - cov[order[number]] > 1e-5:
        drift = exact[0] - exact[1]
        want = np.where(mask, -exact[2] * np.exp(drift), 0.0)
        slope = want.copy()
        for i in order[:number]:
          at = tuple(tokens[i])
          want[at] += 0.5 * abs(drift[at])
          slope[at] += 0.5 * np.sign(drift[at])
        np.testing.assert_allclose(got['kl_cov'][0], want, 1e-4, 1e-4)
        np.testing.assert_allclose(got['kl_cov'][1], slope, 1e-4, 1e-4)

  def test_first_step(self):
    """At ratio 1 the gradient is that of REINFORCE, up to the constant of the square."""
    rng = np.random.default_rng(0)
    logp = log_probs(rng, (3, 4, 5))[0].astype('f')
    mask = rng.random(logp.shape) < 0.7
    advantage = np.broadcast_to(rng.normal(size=(3, 4, 1)), mask.shape)
    advantage = np.where(mask, advantage, 0).astype('f')
    length = np.sum(mask, axis=2, keepdims=True)
    for name, (_, grad, gate) in surrogates_of(logp, logp, advantage, mask).items():
      # (A - tau S)^2 on each of L tokens: 2 tau L, which the mean over tokens makes 2 tau.
      factor = 2 * 0.5 * length if name == 'squared' else 1.0
      np.testing.assert_allclose(grad, -advantage * factor, 1e-5, 1e-6, err_msg=name)
      self.assertTrue(np.all(np.isfinite(gate)), name)

  @parameterized.parameters(
      (partial(quadratic.squared, tau=0.5), 2 / 3), (partial(quadratic.pmd, tau=0.5), 2 / 3),
      (partial(quadratic.dro, beta=0.5), 2 / 3), (surrogates.reinforce, 1.0))
  def test_clipped_share_by_hand(self, surrogate, share):
    """Three rows of one token: A = 0.2, 0.2, -0.2 and S = 0.3, 1, -1.

    A - S / 2 = 0.05, -0.3, 0.3. The square goes against the advantage on the second and the third.
    The weight of REINFORCE is 1 and never the ratio.
    """
    log_ratio = jnp.asarray([[[0.3]], [[1.0]], [[-1.0]]])
    credit = types.SimpleNamespace(mask_PGT=jnp.ones(log_ratio.shape, bool),
                                   advantages_PGT=jnp.asarray([[[0.2]], [[0.2]], [[-0.2]]]))
    got = drift.ratio(surrogate, log_ratio, jnp.zeros_like(log_ratio), log_ratio, credit)
    found = got['ratio/clip_fraction']
    self.assertAlmostEqual(float(found.total / found.count), share, places=6)

  def test_garbage_and_extremes(self):
    mask = np.array([[[True, False, False, True, True, True]]])
    logp = np.array([[[-0.1, np.nan, np.inf, -1e4, 0.0, -1e-9]]], 'f')
    old = np.array([[[-1e4, np.inf, np.nan, -0.1, 0.0, -50.0]]], 'f')
    for sign in (1.0, -1.0, 0.0):
      advantage = np.array([[[sign, np.nan, 1.0, sign, sign, sign]]], 'f')
      for name, results in surrogates_of(logp, old, advantage, mask).items():
        for x in results:
          self.assertTrue(np.all(np.isfinite(x)), name)
          np.testing.assert_array_equal(np.asarray(x)[~mask], 0.0, name)


if __name__ == '__main__':
  absltest.main()
