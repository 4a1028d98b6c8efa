"""The toy numbers of the credit problem: exact ones to the digit, sampled ones within error."""

import math
import pathlib

from absl.testing import absltest
from absl.testing import parameterized
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.coverage import run as coverage
from experiments.kl_estimators import run as kl_estimators
from experiments.leakage import run as leakage
from experiments.snr import run as snr
from experiments.stragglers import run as stragglers
from grpo.objective import gae
from grpo.objective.context import Context
from grpo.study import frames
from grpo.study import stats

# Known values of 400 batches: (failures show, T) -> SNR by arm, in the order of snr.ARMS.
SNR = {
    (1, 8): (6.2, 9.0, 11.5, 10.5, 22.9, 9.8, 14.7),
    (1, 32): (2.8, 3.8, 4.9, 6.4, 23.4, 6.1, 8.8),
    (1, 128): (1.4, 1.9, 2.5, 6.0, 23.2, 4.2, 4.4),
    (1, 512): (0.5, 0.8, 1.1, 5.7, 22.3, 3.0, 2.3),
    (0, 8): (6.2, 6.2, None, 6.1, 6.2, None, None),
    (0, 32): (2.8, 2.9, None, 2.9, 6.0, None, None),
    (0, 128): (1.4, 1.5, None, 1.6, 6.0, None, None),
    (0, 512): (0.7, 0.7, None, 1.5, 6.4, None, None),
}


def rounding(x):
  """Half a unit of the last digit that is printed."""
  return 0.05 if x < 100 else 0.5


def errors(found, visible, turns):
  """(arm, known number, measured one, allowed difference): both come from 400 batches."""
  for arm, known in zip(snr.ARMS, SNR[visible, turns]):
    if known is not None:
      error = math.sqrt(2) * math.sqrt((1 + known**2 / 2) / 400)
      yield arm, known, found[arm], 3 * error + rounding(known)


@pytest.mark.slow
class LongSnrTest(absltest.TestCase):

  def test_more_steps(self):
    for turns in (32, 128):
      for visible in (1, 0):
        found = snr.measure(turns, visibility=float(visible), batches=400, seed=1)
        found = {arm: x['snr'] for arm, x in found.items()}
        for arm, known, measured, allowed in errors(found, visible, turns):
          self.assertAlmostEqual(measured, known, delta=allowed, msg=f'{arm} {turns} v={visible}')


class SnrTest(parameterized.TestCase):

  @parameterized.parameters(1, 0)
  def test_eight_steps(self, visible):
    found = snr.measure(8, visibility=float(visible), batches=400, seed=1)
    found = {arm: x['snr'] for arm, x in found.items()}
    for arm, known, measured, allowed in errors(found, visible, 8):
      self.assertAlmostEqual(measured, known, delta=allowed, msg=arm)

  @parameterized.parameters(1, 0)
  def test_committed_results_of_the_longest(self, visible):
    rows = frames.read(pathlib.Path(snr.__file__).with_name('results.csv'))
    found = {r['arm']: r['snr'] for r in frames.where(rows, part='horizon', horizon=512,
                                                      visibility=visible)}
    for arm, known, measured, allowed in errors(found, visible, 512):
      self.assertAlmostEqual(measured, known, delta=allowed, msg=arm)

  def test_slope(self):
    self.assertAlmostEqual(snr.slope([8, 32, 128], [4, 2, 1]), -0.5)

  def test_decisive_steps_end_their_blocks(self):
    np.testing.assert_array_equal(np.flatnonzero(snr.is_decisive(8, 4)), [1, 3, 5, 7])
    np.testing.assert_array_equal(np.flatnonzero(snr.is_decisive(12, 2)), [5, 11])


class LeakageTest(parameterized.TestCase):

  def test_share_of_broadcast_and_of_critics(self):
    for arm in ('group z-score (GRPO)', 'raw outcome'):
      share = leakage.shares(arm, (2, 32))
      self.assertAlmostEqual(share[2], 0.5, places=6)
      self.assertAlmostEqual(share[32], 0.96875, places=6)
    self.assertEqual(leakage.shares('exact critic, lambda 0', (2, 32)), {2: 0.0, 32: 0.0})

  # Sampled numbers are known to two digits; those of the chain itself are exact.
  @parameterized.parameters(
      ('group z-score (GRPO)', 0.58, 0.58), ('anchors, std (GiGPO)', 1.15, 1.57),
      ('exact critic, lambda 1', 0.56, 1.10), ('exact critic, lambda 0', -0.69, 1.42))
  def test_credit_of_a_mistake_and_its_repair(self, arm, bad, recover):
    found = leakage.credits(arm)
    self.assertAlmostEqual(found['bad'], bad, delta=0.02)
    self.assertAlmostEqual(found['recover'], recover, delta=0.02)

  def test_mean_over_all_mistakes(self):
    self.assertAlmostEqual(leakage.credits('group mean (Dr. GRPO)')['bad_mean'], -0.25, places=6)
    self.assertEqual(leakage.credits('oracle')['bad_mean'], -0.25)


class CoverageTest(parameterized.TestCase):

  @parameterized.parameters((0.9, 10, 0.967, 3), (0.9, 30, 0.293, 17), (0.9, 100, 0.000, 26_096),
                            (0.95, 100, 0.046, 117))
  def test_share_of_informative_groups(self, right, turns, share, needed):
    p = right**turns
    self.assertAlmostEqual(coverage.informative(p, 8), share, delta=5e-4)
    self.assertEqual(coverage.needed(p), needed)
    self.assertLess(coverage.informative(p, needed - 1), 0.5)

  def test_played_groups(self):
    share, se = coverage.measured(0.9, 10, 128)
    self.assertAlmostEqual(share, 0.967, delta=3 * se)

  @parameterized.parameters(('GRPO, 16 x 8', 7.1), ('exact values, 128 x 1', 9.5),
                            ('batch mean, 128 x 1', 15.5))
  def test_signal_of_one_step(self, arm, known):
    found, se = coverage.signal(arm, 400)
    self.assertAlmostEqual(found, known, delta=3 * math.sqrt(2) * se + rounding(known))


class StragglersTest(parameterized.TestCase):

  @parameterized.parameters((1, 1.0, 2.0, 6), (8, 1.0, 6.1, 15), (16, 0.5, 4.4, None),
                            (8, 1.5, 8.6, None))
  def test_staleness(self, group, sigma, mean, p95):
    age_N = stragglers.simulate(group, sigma, steps=120)
    parts = age_N.reshape(12, -1).mean(axis=1)
    error = 3 * parts.std(ddof=1) / math.sqrt(12) + 0.06
    self.assertAlmostEqual(age_N.mean(), mean, delta=error)
    if p95:
      self.assertAlmostEqual(np.quantile(age_N, 0.95), p95, delta=1)

  @parameterized.parameters((2, 1.5), (4, 2.2), (8, 3.1), (16, 4.2))
  def test_slowest_of_a_group(self, group, known):
    self.assertAlmostEqual(stragglers.slowest(group, 1.0), known, delta=0.1)


class OtherToysTest(parameterized.TestCase):

  def test_kl_gradients_of_one_decision(self):
    rows = kl_estimators.rows('smoke', lambda done, total: None)
    error = {(r['place'], r['arm'], r['data']): (r['error_reverse'], r['error_forward'], r['norm'])
             for r in rows if r['horizon'] == 1 and r['distance'] == 1.0}
    self.assertLess(error['loss', 'k1', 'on'][2], 1e-12)
    self.assertLess(error['loss', 'k2', 'on'][0], 1e-12)
    self.assertLess(error['loss', 'k3', 'on'][1], 1e-12)
    self.assertLess(error['reward', 'k1', 'on'][0], 1e-12)
    self.assertGreater(error['reward', 'k3', 'on'][0], 0.5)
    for data in ('on', 'off'):
      self.assertLess(error['loss', 'importance_weighted_k3', data][0], 1e-12)

  @parameterized.parameters((100, 0.99), (1000, 0.90), (10_000, 0.37), (100_000, 5e-5))
  def test_effective_sample_size_of_sequence_ratios(self, turns, known):
    # The sum of T log-ratios of spread s has spread s sqrt(T): ESS = E[w]^2 / E[w^2].
    spread = 0.01 * math.sqrt(turns)
    mean = lambda k: math.exp(k * k * spread**2 / 2)  # E[exp(k x)]
    self.assertAlmostEqual(mean(1) ** 2 / mean(2), known, delta=0.1 * known)

  @parameterized.parameters(('rollout', (0.61, 0.72, 0.85)), ('segment', (0.135, 0.26, 0.51)))
  def test_weight_of_the_final_reward_on_early_segments(self, length, known):
    segments, each = 4, 100
    valid = jnp.ones((1, 1, segments * each), bool)
    segment = jnp.repeat(jnp.arange(segments), each)[None, None]
    context = Context(
        tokens_PGK=valid.astype(jnp.int32), lengths_PG=jnp.full((1, 1), segments * each),
        truncated_PG=jnp.zeros((1, 1), bool), state_id_PGK=None, bootstrap_PG=None, baseline=None,
        values_PGK=jnp.zeros(valid.shape), segment_PGK=segment)
    rewards = jnp.zeros(valid.shape).at[..., -1].set(1.0)
    weight = gae.adaptive_cross_segment_return(rewards, valid, context, alpha=1.5, length=length)
    ends = np.asarray(weight)[0, 0, each - 1::each][:3]
    np.testing.assert_allclose(ends, known, atol=0.006)

  def test_length_adaptive_lambda(self):
    self.assertAlmostEqual((1 - 1 / (1.5 * 10_000)) ** 10_000, 0.513, places=3)

  @parameterized.parameters((3, 3.1), (5, 2.0), (8, 1.5), (16, 1.0), (64, 0.5))
  def test_effect_that_seeds_can_see(self, seeds, known):
    self.assertAlmostEqual(stats.minimum_effect(seeds), known, delta=0.05)


if __name__ == '__main__':
  absltest.main()
