"""Baselines, surrogates, corrections, gates, weights and memories against slow loops."""

import dataclasses
import functools

from absl.testing import absltest
from absl.testing import parameterized
import hypothesis
from hypothesis import strategies
import jax
import jax.numpy as jnp
import numpy as np

from grpo.objective import baselines
from grpo.objective import corrections
from grpo.objective import filters
from grpo.objective import gates
from grpo.objective import memory
from grpo.objective import quadratic
from grpo.objective import ratios
from grpo.objective import surrogates
from grpo.objective import trust
from grpo.objective import weigh
from grpo.objective.context import Context
from tests import reference_single as slow
from tests import rollouts

partial = functools.partial
SHAPES = ((3, 4, 5), (2, 2, 1), (1, 3, 4))
TOL = 1e-5
draws = lambda count: lambda test: hypothesis.settings(
    max_examples=count, deadline=None, derandomize=True)(hypothesis.given(
        shape=strategies.sampled_from(SHAPES), share=strategies.sampled_from((0.0, 0.3, 0.7, 1.0)),
        seed=strategies.integers(0, 2**32 - 1))(test))

ADVANTAGES = {name: getattr(baselines, name) for name in baselines.__all__}
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

  @draws(25)
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
      self.assertSameElements(want, baselines.__all__)
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

  def test_errors(self):
    x = jnp.ones((1, 2, 1))
    with self.assertRaisesRegex(ValueError, 'others, all'):
      baselines.log_mean_exp(x, x > 0, None, tau=1.0, members='some')
    context = rollouts.context(x > 0)
    with self.assertRaisesRegex(ValueError, 'rewards by source'):
      baselines.decoupled_zscore(x, x > 0, context)


class SurrogatesTest(parameterized.TestCase):

  def test_slots_are_covered(self):
    self.assertSameElements([*trust.__all__, *quadratic.__all__], [*NUMBERS, 'kl_cov'])

  @draws(20)
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


LEVELS = ('token', 'sequence', 'geometric')
REJECT = [(kind, level) for kind in ('k1', 'k2', 'k3') for level in ('token', 'sum', 'mean', 'max')]


@jax.jit
def corrections_of(old, sampler, mask):
  args = old, sampler, mask
  out = {f'tis {x}': corrections.tis(*args, cap=1.5, floor=0.5, level=x) for x in LEVELS}
  out |= {f'icepop {x}': corrections.icepop(*args, low=0.6, high=1.4, level=x) for x in LEVELS}
  out |= {f'normalised {x}': corrections.tis(*args, cap=1.5, level=x, normalise='batch')
          for x in LEVELS}
  out |= {f'{k} {x}': corrections.reject(*args, kind=k, level=x, high=1.3 if k == 'k1' else 0.1)
          for k, x in REJECT}
  return out | dict(m2po=corrections.m2po(*args, tau=0.1))


class CorrectionsTest(parameterized.TestCase):

  @draws(20)
  def test_parity(self, shape, share, seed):
    rng = np.random.default_rng(seed)
    old, sampler = (x.astype('f') for x in log_probs(rng, shape))
    mask = rng.random(shape) < share
    got = jax.tree.map(np.asarray, corrections_of(old, sampler, mask))
    rows = [(p, g) for p in range(shape[0]) for g in range(shape[1])]
    args = [(old[at].astype(float), sampler[at].astype(float), mask[at]) for at in rows]
    for level in LEVELS:
      for name, low, high in (('tis', 0.5, 1.5), ('icepop', 0.6, 1.4)):
        want = [slow.correction(name, *x, level=level, low=low, high=high) for x in args]
        np.testing.assert_allclose(got[f'{name} {level}'][0], np.reshape(want, shape), 1e-4, 1e-6)
      plain = np.reshape([slow.correction('tis', *x, level=level, high=1.5) for x in args], shape)
      numbers = plain[mask] if level == 'token' else plain.max(axis=2)[mask.any(axis=2)]
      if numbers.size:
        np.testing.assert_allclose(got[f'normalised {level}'][0], plain / numbers.mean(), 1e-4)
    for kind, level in REJECT:
      high = 1.3 if kind == 'k1' else 0.1
      want = np.reshape([slow.reject(*x, kind, level, 1 / high, high) for x in args], shape)
      weight, keep = got[f'{kind} {level}']
      np.testing.assert_array_equal(weight, mask)
      np.testing.assert_array_equal(keep & mask, want, f'{kind} {level}')
    squares = np.square((old - sampler).astype(float))[mask]
    kept = got['m2po'][0][mask]
    if squares.size:
      np.testing.assert_array_equal(np.flatnonzero(kept), sorted(slow.m2po(list(squares), 0.1)))
    for name, (weight, _) in got.items():
      np.testing.assert_array_equal(weight[~mask], 0.0, name)

  def test_garbage_and_extremes(self):
    mask = np.array([[[True, False, True, True]]])
    old = np.array([[[-0.1, np.nan, -1e5, 0.0]]], 'f')
    sampler = np.array([[[-1e5, np.inf, -0.1, 0.0]]], 'f')
    for name, (weight, _) in corrections_of(old, sampler, mask).items():
      self.assertTrue(np.all(np.isfinite(weight)), name)

  def test_combination(self):
    """Weights multiply, and only a rejected token leaves the mask."""
    old = jnp.log(jnp.array([[[0.9, 0.5, 0.9]]]))
    sampler = jnp.log(jnp.array([[[0.9, 0.1, 0.45]]]))
    slots = (corrections.icepop, partial(corrections.tis, cap=1.5),
             partial(corrections.reject, kind='k1', level='token', high=3.0))
    weight, keep = corrections.combine(slots, old, sampler, jnp.ones((1, 1, 3), bool))
    np.testing.assert_array_equal(keep, [[[True, False, True]]])   # 5 is out of [1/3, 3]
    np.testing.assert_allclose(weight, [[[1.0, 7.5, 3.0]]], 1e-6)  # icepop k times min(k, 1.5)
    self.assertIsNone(corrections.combine((), old, sampler, old < 0)[0])

  def test_errors(self):
    x = jnp.zeros((1, 1, 1))
    for call, words in ((partial(corrections.tis, level='turn'), 'token, sequence, geometric'),
                        (partial(corrections.tis, normalise='row'), 'none, batch'),
                        (partial(corrections.reject, kind='k4', high=1.0), 'k1, k2, k3'),
                        (partial(corrections.reject, kind='k3', low=0.1, high=1.0), 'no lower')):
      with self.assertRaisesRegex(ValueError, words):
        call(x, x, x == 0)


class GatesTest(parameterized.TestCase):

  def tokens(self, rng, shape, share):
    logp, old = (x.astype('f') for x in log_probs(rng, shape))
    mask = rng.random(shape) < share
    advantage = np.broadcast_to(rng.choice([2.0, -1.0], (*shape[:2], 1)), shape).astype('f')
    clean = lambda x: np.where(mask, x, 0).astype('f')
    return gates.Tokens(
        logp_PGT=clean(logp), old_logp_PGT=clean(old), sampler_logp_PGT=clean(old),
        advantages_PGT=clean(advantage), entropy_PGT=clean(rng.random(shape)),
        open_PGT=clean(rng.random(shape) < 0.8), uniform_PGT=rng.random(shape).astype('f'),
        mask_PGT=mask)

  @draws(20)
  def test_parity(self, shape, share, seed):
    rng = np.random.default_rng(seed)
    x = self.tokens(rng, shape, share)
    got = jax.tree.map(np.asarray, run_gates(x))
    exact = jax.tree.map(lambda y: y.astype(float) if y.dtype == np.float32 else y, x)
    rows = [(p, g) for p in range(shape[0]) for g in range(shape[1])]
    lp, sampler, adv, mask = (exact.logp_PGT, exact.sampler_logp_PGT, exact.advantages_PGT,
                              exact.mask_PGT)
    want = [slow.off_policy_sequence(lp[r], sampler[r], adv[r], mask[r], 0.05) for r in rows]
    np.testing.assert_array_equal(got['off_policy_sequence'], np.reshape(want, shape))
    want = [slow.sequence_kl(lp[r], sampler[r], mask[r], 0.05) for r in rows]
    np.testing.assert_array_equal(got['sequence_kl'], np.reshape(want, shape))
    if not mask.any():
      return
    entropy = exact.entropy_PGT[mask]
    np.testing.assert_array_equal(got['top_entropy'][mask],
                                  entropy >= np.quantile(entropy, 0.6) - 1e-7)
    cov = np.array(slow.covariance(lp[mask], adv[mask]))
    able = [i for i, c in enumerate(cov) if 0.1 < c < 5 and exact.open_PGT[mask][i]]
    able = sorted(able, key=lambda i: exact.uniform_PGT[mask][i])
    if np.min(np.abs(cov - 0.1)) > 1e-5 and np.min(np.abs(cov - 5)) > 1e-5:
      dropped = np.flatnonzero(got['clip_cov'][mask] == 0)
      np.testing.assert_array_equal(dropped, sorted(able[:slow.part(0.3, len(cov))]))

  def test_random_gates_ask_for_numbers(self):
    self.assertTrue(gates.needs_draws((gates.sequence_kl, partial(gates.clip_cov, share=0.1))))
    self.assertFalse(gates.needs_draws((gates.top_entropy,)))


@jax.jit
def run_gates(tokens):
  return dict(
      off_policy_sequence=gates.off_policy_sequence(tokens, delta=0.05),
      sequence_kl=gates.sequence_kl(tokens, delta=0.05),
      clip_cov=gates.clip_cov(tokens, share=0.3, low=0.1, high=5.0),
      top_entropy=gates.top_entropy(tokens, share=0.4))


class WeighTest(parameterized.TestCase):

  @draws(20)
  def test_prefix(self, shape, share, seed):
    rng = np.random.default_rng(seed)
    tokens = np.where(rng.random(shape) < 0.9, rng.integers(0, 2, shape), -1)
    mask = (rng.random(shape) < share) & (tokens >= 0)
    got = jax.jit(partial(weigh.prefix_share, None))(tokens, mask)
    want = [slow.prefix_share(tokens[p], mask[p]) for p in range(shape[0])]
    np.testing.assert_allclose(got, want, 1e-6)

  def test_uncertainty_and_pass_rate(self):
    zero = jnp.zeros((3, 4))
    success = jnp.array([[1.0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 0]])
    facts = filters.Facts(reward_PG=zero, shaped_PG=zero, success_PG=success,
                          lengths_PG=jnp.ones((3, 4), jnp.int32), truncated_PG=zero > 0,
                          version_PG=zero, now=jnp.asarray(0))
    got = weigh.uncertainty(facts, None, jnp.ones((3, 4, 2), bool))[:, 0, 0]
    want = np.array([0.5, 0.0, np.sqrt(3 / 16)]) + 0.05
    np.testing.assert_allclose(got, want / want.mean(), 1e-6)
    np.testing.assert_array_equal(filters.pass_rate(facts)[:, 0], [True, False, True])
    np.testing.assert_array_equal(filters.pass_rate(facts, high=0.6)[:, 0], [True, False, False])
    for by, words in (('baseline', 'memory'), ('rate', 'success, baseline')):
      with self.assertRaisesRegex(ValueError, words):
        weigh.uncertainty(facts, None, jnp.ones((3, 4, 2), bool), by=by)


class MemoryTest(parameterized.TestCase):

  def seen(self, rollout, old=None, ref=None):
    return memory.Seen(rollout=rollout, old_logp_PGT=old, ref_logp_PGT=ref, past_logp_PGT={})

  def test_running_mean(self):
    slot, kept, want = memory.running_mean(decay=0.5), None, None
    for mean in (2.0, 4.0, 0.0):
      x = rollouts.rollout(np.ones((2, 2, 1), bool), np.full((2, 2, 1), mean))
      kept = slot.initial(x) if kept is None else kept
      _, baseline = slot.recall(kept, None, x)
      np.testing.assert_allclose(baseline, np.full((2, 2), 0.0 if want is None else want))
      want = mean if want is None else 0.5 * want + 0.5 * mean
      kept = slot.remember(kept, self.seen(x))

  @hypothesis.settings(max_examples=10, deadline=None, derandomize=True)
  @hypothesis.given(seed=strategies.integers(0, 2**32 - 1))
  def test_tracker(self, seed):
    """Several prompts a step, some of them twice, against one law for each prompt."""
    rng = np.random.default_rng(seed)
    slot = memory.prompt_tracker(prompt=1, slots=1024, least=0.8, most=0.95, half=0.1)
    laws = [slow.Tracker(0.8, 0.95, 0.1) for _ in range(5)]
    kept, step = None, jax.jit(slot.remember)
    last = {}
    for _ in range(4):
      prompts = rng.integers(0, 5, 6)
      logp = rng.random((6, 2, 3)).astype('f')
      reward = rng.choice([0.0, 1.0], (6, 2))
      x = rollouts.rollout(np.ones((6, 2, 3), bool), np.zeros((6, 2, 3)))
      tokens = np.broadcast_to(prompts[:, None, None, None], x.tokens.shape).astype(np.int32)
      rewards = np.zeros(x.rewards.shape, 'f')
      rewards[..., 0, -1] = reward
      x = dataclasses.replace(x, tokens=jnp.asarray(tokens), logp=jnp.asarray(logp[:, :, None]),
                              rewards=jnp.asarray(rewards))
      kept = slot.initial(x) if kept is None else kept
      _, baseline = slot.recall(kept, None, x)
      np.testing.assert_allclose(baseline[:, 0], [laws[i].rate() for i in prompts], 1e-5)
      past = slot.past(kept, x)
      now = past.logp[:, :, 0] + np.float32(0.05)
      kept = step(kept, self.seen(x), now)
      for i in set(prompts):
        here = np.flatnonzero(prompts == i)
        laws[i].update([float(r) for h in here for r in reward[h]], 0.05 if i in last else 0.0)
        last[i] = logp[here[-1], 0]
      found = slot.past(kept, x)
      np.testing.assert_allclose(found.logp[:, 0, 0], [last[i] for i in prompts], 1e-6)

  def test_not_ready(self):
    x = rollouts.rollout(np.ones((1, 1, 1), bool), np.ones((1, 1, 1)))
    slots = rollouts.make(memory=(('mean', memory.running_mean()),))
    kept = memory.initial(slots.memory, x)
    for ready, mean in ((False, 0.0), (True, 1.0)):
      kept = memory.remember(kept, slots, self.seen(x), jnp.asarray(ready))
      self.assertEqual(kept['mean']['mean'], mean)
    self.assertIsNone(memory.initial((), x))
    self.assertIsNone(memory.remember(None, rollouts.make(), self.seen(x), True))


if __name__ == '__main__':
  absltest.main()
