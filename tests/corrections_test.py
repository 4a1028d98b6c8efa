"""Corrections, gates, weights and memories against slow loops."""

import dataclasses
import functools

from absl.testing import absltest
from absl.testing import parameterized
import hypothesis
from hypothesis import strategies
import jax
import jax.numpy as jnp
import numpy as np

from grpo.objective import corrections
from grpo.objective import filters
from grpo.objective import gates
from grpo.objective import memory
from grpo.objective import weigh
from tests import draws
from tests import reference_single as slow
from tests import rollouts

partial = functools.partial
TOL = 1e-5

def log_probs(rng, shape):
  """Log-probabilities of two policies, not far apart."""
  logp = -rng.gamma(1.0, 1.0, shape) - 0.05
  return logp, np.minimum(logp + 0.5 * rng.normal(size=shape), -0.01)


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

  @draws.times(20)
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
    slots = (corrections.icepop, partial(corrections.m2po, tau=1.0),
             partial(corrections.reject, kind='k1', level='token', high=3.0))
    weight, keep = corrections.combine(slots, old, sampler, jnp.ones((1, 1, 3), bool))
    np.testing.assert_array_equal(keep, [[[True, False, True]]])   # 5 is out of [1/3, 3]
    np.testing.assert_allclose(weight, [[[1.0, 0.0, 2.0]]], 1e-6)  # k, or 0 where m2po drops
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

  @draws.times(20)
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

  @draws.times(20)
  def test_prefix(self, shape, share, seed):
    rng = np.random.default_rng(seed)
    tokens = np.where(rng.random(shape) < 0.9, rng.integers(0, 2, shape), -1)
    mask = (rng.random(shape) < share) & (tokens >= 0)
    got = jax.jit(partial(weigh.prefix_share, None))(tokens, mask)
    want = [slow.prefix_share(tokens[p], mask[p]) for p in range(shape[0])]
    np.testing.assert_allclose(got, want, 1e-6)

  def test_a_sample_that_is_not_trained_shares_nothing(self):
    mask = np.ones((1, 3, 4), bool)
    mask[0, 2] = False   # without a score
    got = weigh.prefix_share(None, jnp.zeros((1, 3, 4), jnp.int32), jnp.asarray(mask))
    np.testing.assert_array_equal(got, 0.5 * mask)

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
