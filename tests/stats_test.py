"""Tests of study/stats.py: known values, scipy as a check, and calibration by simulation."""

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
from scipy import stats as scipy_stats

from grpo.study import stats


class IqmTest(parameterized.TestCase):

  def test_by_hand(self):
    # 8 runs: 2 dropped at either end, (2 + 3 + 4 + 5) / 4 = 3.5; the outlier does not matter.
    self.assertEqual(stats.iqm([np.array([5., 0, 1, 2, 3, 4, 6, 900])]), 3.5)
    # 3 runs: floor(3/4) = 0 dropped: the mean.
    self.assertEqual(stats.iqm([np.array([0., 1, 5])]), 2.0)

  @parameterized.parameters(3, 4, 5, 7, 8, 16, 33)
  def test_is_the_trimmed_mean_of_pooled_strata(self, n):
    x = np.random.default_rng(n).normal(size=(2, n))
    self.assertAlmostEqual(float(stats.iqm(list(x))), scipy_stats.trim_mean(x, 0.25, axis=None))

  def test_leading_axes(self):
    x = np.random.default_rng(0).normal(size=(5, 9))
    np.testing.assert_allclose(stats.iqm([x]), [stats.iqm([row]) for row in x])


class NanTest(parameterized.TestCase):

  @parameterized.parameters(
      (stats.iqm,), (stats.mean_of_strata,), (stats.bootstrap,), (stats.paired_improvement,),
      (stats.compare,), (lambda x: stats.improvement([np.ones(2), np.ones(3)], x),))
  def test_is_refused_and_named(self, statistic):
    # Trimming would drop it: 8 runs, the two largest go, and NaN is sorted last.
    strata = [np.zeros(4), np.array([0., 1, np.nan, 3])]
    with self.assertRaisesRegex(ValueError, r'\[1\]: score \[2\] of shape \[4\] is NaN'):
      statistic(strata)

  def test_of_a_curve(self):
    x = np.zeros([3, 5])
    x[2, 4] = np.nan
    with self.assertRaisesRegex(ValueError, r'strata\[0\]: score \[2, 4\] of shape \[3, 5\]'):
      stats.bootstrap([x])

  def test_infinite_scores_are_scores(self):
    self.assertEqual(stats.iqm([np.array([-np.inf, 1, 2, np.inf])]), 1.5)


class BootstrapTest(parameterized.TestCase):

  def test_interval_of_a_mean_matches_theory(self):
    x = np.random.default_rng(0).normal(2.0, 1.0, size=200)
    got = stats.bootstrap([x], stats.mean_of_strata, samples=4000)
    half = 1.96 * x.std() / np.sqrt(len(x))
    self.assertAlmostEqual(float(got.low), x.mean() - half, delta=0.02)
    self.assertAlmostEqual(float(got.high), x.mean() + half, delta=0.02)

  def test_matches_scipy(self):
    x = np.random.default_rng(1).beta(2, 2, size=40)
    ours = stats.bootstrap([x], samples=4000)
    theirs = scipy_stats.bootstrap((x,), lambda v, axis: scipy_stats.trim_mean(v, 0.25, axis=axis),
                                   n_resamples=4000, method='percentile',
                                   rng=np.random.default_rng(2)).confidence_interval
    np.testing.assert_allclose([ours.low, ours.high], theirs, atol=0.01)

  def test_strata_are_resampled_within(self):
    # Two settings far apart, no spread inside either: resampling within changes nothing.
    got = stats.bootstrap([np.zeros(6), np.full(6, 100.0)], stats.mean_of_strata)
    self.assertEqual((got.point, got.low, got.high), (50.0, 50.0, 50.0))

  def test_same_arguments_same_interval(self):
    x = [np.random.default_rng(3).normal(size=7)]
    self.assertEqual(stats.bootstrap(x), stats.bootstrap(x))
    self.assertNotEqual(stats.bootstrap(x).low, stats.bootstrap(x, seed=1).low)

  def test_one_run_has_no_interval(self):
    got = stats.bootstrap([np.array([0.5])])
    self.assertEqual(got.point, 0.5)
    self.assertTrue(np.isnan(got.low) and np.isnan(got.high))

  def test_curves_keep_seeds_together(self):
    level = np.random.default_rng(4).normal(size=8)
    got = stats.bootstrap([np.stack([level, level + 1])])  # [2 steps, 8 seeds]
    self.assertEqual(got.low.shape, (2,))
    self.assertAlmostEqual(got.low[1] - got.low[0], 1.0)

  def test_settings_may_lose_seeds(self):
    got = stats.bootstrap([np.array([0., 1]), np.array([0., 1, 2, 3, 4])], stats.mean_of_strata)
    self.assertEqual(got.point, (0.5 + 2.0) / 2)


class ImprovementTest(parameterized.TestCase):

  def test_by_hand(self):
    # Pairs (x, y): 1>0, 1=1, 3>0, 3>1: (3 + 0.5) / 4.
    got = stats.improvement([np.array([1., 3])], [np.array([0., 1])])
    self.assertEqual(got.point, 3.5 / 4)

  def test_is_mann_whitney(self):
    rng = np.random.default_rng(0)
    x, y = rng.integers(5, size=9).astype(float), rng.integers(5, size=6).astype(float)
    u = scipy_stats.mannwhitneyu(x, y).statistic
    self.assertAlmostEqual(float(stats.improvement([x], [y]).point), u / (9 * 6))

  def test_interval_holds_the_truth(self):
    # P(X > Y) of two normals half a standard deviation apart is Phi(0.5 / sqrt 2) = 0.638.
    hits = 0
    for i in range(60):
      rng = np.random.default_rng(i)
      got = stats.improvement([rng.normal(0.5, 1, 20)], [rng.normal(0, 1, 20)], samples=300)
      hits += got.low <= 0.638 <= got.high
    self.assertGreaterEqual(hits, 50)

  def test_paired(self):
    got = stats.paired_improvement([np.array([1., 0, -1, 2]), np.array([1., 1])])
    self.assertEqual(got.point, ((2 + 0.5) / 4 + 1.0) / 2)
    self.assertEqual(stats.paired_improvement([np.zeros(5)]).point, 0.5)

  def test_strata_must_agree(self):
    with self.assertRaisesRegex(ValueError, 'same strata'):
      stats.improvement([np.zeros(2)], [np.zeros(2)] * 2)


class CompareTest(parameterized.TestCase):

  def test_one_stratum_is_the_paired_t_test(self):
    d = np.random.default_rng(0).normal(0.3, 1.0, size=8)
    got, want = stats.compare([d]), scipy_stats.ttest_1samp(d, 0.0)
    self.assertAlmostEqual(got.p, want.pvalue)
    interval = want.confidence_interval()
    np.testing.assert_allclose([got.difference.low, got.difference.high], interval)
    self.assertAlmostEqual(got.visible, d.std(ddof=1) * stats.minimum_effect(8, paired=True))

  def test_two_strata_are_welch(self):
    # The mean of two stratum means has the law of Welch's statistic with one sign turned.
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.2, 1, size=5), rng.normal(0.4, 3, size=9)
    got = stats.compare([a, b])
    self.assertAlmostEqual(got.p, scipy_stats.ttest_ind(a, -b, equal_var=False).pvalue)
    self.assertAlmostEqual(got.difference.point, (a.mean() + b.mean()) / 2)

  def test_differences_without_spread(self):
    self.assertEqual(stats.compare([np.zeros(8)]).p, 1.0)
    self.assertEqual(stats.compare([np.full(8, 0.25)]).p, 2.0 ** -7)
    # 0.1 + 0.2 - 0.3 is rounding, not spread.
    self.assertEqual(stats.compare([np.array([0.3, 0.1 + 0.2, 0.3])]).p, 0.25)

  def test_too_few_pairs(self):
    got = stats.compare([np.array([0.5])])
    self.assertEqual(got.difference.point, 0.5)
    self.assertTrue(np.isnan(got.p))
    self.assertEqual(stats.verdict(got, got.p), 'not distinguishable')
    self.assertEqual(stats.verdict(stats.compare([np.zeros(0)]), np.nan), 'not distinguishable')

  @parameterized.parameters(3, 5, 8)
  def test_false_claims_stay_at_five_percent(self, n):
    rng = np.random.default_rng(n)
    claims = sum(stats.verdict(c, c.p) != 'not distinguishable'
                 for c in (stats.compare([rng.normal(size=n)]) for _ in range(2000)))
    self.assertBetween(claims / 2000, 0.035, 0.065)

  def test_power_at_the_smallest_visible_effect(self):
    rng = np.random.default_rng(0)
    effect = stats.minimum_effect(8, paired=True)
    seen = sum(stats.verdict(c, c.p) == 'better'
               for c in (stats.compare([rng.normal(effect, 1, size=8)]) for _ in range(2000)))
    self.assertBetween(seen / 2000, 0.77, 0.83)

  def test_verdict_needs_interval_and_corrected_p(self):
    better = stats.compare([np.array([0.2, 0.3, 0.25, 0.22])])
    self.assertEqual(stats.verdict(better, better.p), 'better')
    self.assertEqual(stats.verdict(better, 0.2), 'not distinguishable')
    worse = stats.compare([-np.array([0.2, 0.3, 0.25, 0.22])])
    self.assertEqual(stats.verdict(worse, worse.p), 'worse')


class CorrectionTest(parameterized.TestCase):

  def test_holm(self):
    # Sorted .01 .02 .03 .04 times 4 3 2 1 = .04 .06 .06 .04, then the running maximum.
    np.testing.assert_allclose(stats.holm([.02, .01, .04, .03]), [.06, .04, .06, .06])
    np.testing.assert_allclose(stats.holm([.9, .8]), [1, 1])
    np.testing.assert_allclose(stats.holm([.01, np.nan, .04]), [.02, np.nan, .04])
    self.assertEqual(stats.holm([]).shape, (0,))

  def test_benjamini_hochberg(self):
    # .01*4/1, .02*4/2, .03*4/3, .2*4/4 = .04 .04 .04 .2
    np.testing.assert_allclose(stats.benjamini_hochberg([.2, .01, .03, .02]), [.2, .04, .04, .04])
    p = np.random.default_rng(0).uniform(size=11)
    np.testing.assert_allclose(stats.benjamini_hochberg(p), scipy_stats.false_discovery_control(p))


class MinimumEffectTest(parameterized.TestCase):

  @parameterized.parameters((3, 3.1), (5, 2.0), (8, 1.5), (16, 1.0), (64, 0.5))
  def test_published_numbers(self, n, want):
    self.assertAlmostEqual(stats.minimum_effect(n), want, delta=0.05)

  @parameterized.parameters((3, 3.0709), (5, 2.0244), (8, 1.5070))
  def test_exact(self, n, want):
    self.assertAlmostEqual(stats.minimum_effect(n), want, delta=5e-4)

  def test_paired_reproduces_its_power(self):
    for n in (3, 8, 20):
      effect = stats.minimum_effect(n, paired=True)
      critical = scipy_stats.t.ppf(0.975, n - 1)
      power = scipy_stats.nct.sf(critical, n - 1, effect * np.sqrt(n))
      self.assertAlmostEqual(power, 0.8, places=5)

  def test_one_seed_sees_nothing(self):
    self.assertEqual(stats.minimum_effect(1), np.inf)


class WilsonTest(absltest.TestCase):

  def test_by_hand(self):
    # 5 of 10, z 1.96: middle (0.5 + 0.1921) / 1.3842 = 0.5 and half
    # 1.96 sqrt(0.025 + 0.0096) / 1.3842 = 0.2634.
    low, high = stats.wilson(0.5, 10)
    np.testing.assert_allclose([low, high], [0.2366, 0.7634], atol=1e-4)
    self.assertGreater(stats.wilson(0.0, 10)[1], 0.25)  # none of ten is not never
    self.assertAlmostEqual(float(stats.wilson(0.0, 10)[0]), 0.0)


if __name__ == '__main__':
  absltest.main()
