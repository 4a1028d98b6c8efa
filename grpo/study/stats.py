"""Statistics of runs: what a handful of seeds can say, and what it cannot.

Scores come as strata. A stratum is one (task, setting) and holds one score per seed; seeds are
resampled within a stratum, never across, because settings differ by design and seeds by chance.
Agarwal et al. 2021, arXiv:2108.13264 (rliable), sections 3 and 4, for the interquartile mean, the
stratified bootstrap and the probability of improvement.

An interval of the bootstrap is too narrow for very few seeds. So whether two arms differ is never
read from it: that is `compare`, a t interval and a corrected p-value.

A score that is NaN raises ValueError: sorted last, it would be trimmed as if it were high.
"""

from collections.abc import Callable, Sequence
import dataclasses
import math

import numpy as np
from scipy import special

__all__ = ['Interval', 'Comparison', 'iqm', 'mean_of_strata', 'bootstrap', 'improvement',
           'paired_improvement', 'compare', 'holm', 'benjamini_hochberg', 'minimum_effect',
           'verdict', 'wilson']

Strata = Sequence[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Interval:
  """A point estimate with its interval; NaN where there is none. Floats, or arrays of floats."""
  point: float
  low: float
  high: float


@dataclasses.dataclass(frozen=True)
class Comparison:
  """One arm against another on the seeds they share."""
  difference: Interval   # mean paired difference, arm - base, with its t interval
  p: float               # two-sided; NaN with fewer than two pairs in any stratum
  pairs: int             # number of pairs, all strata together
  visible: float         # smallest difference these pairs could see, in units of the score


def _scores(strata, name='strata'):
  """The strata as float64. Raises ValueError if a score is NaN."""
  strata = [np.asarray(x, np.float64) for x in strata]
  for k, x in enumerate(strata):
    bad = np.argwhere(np.isnan(x))
    if len(bad):
      raise ValueError(f'{name}[{k}]: score {bad[0].tolist()} of shape {list(x.shape)} is NaN')
  return strata


def iqm(strata: Strata) -> np.ndarray:
  """Interquartile mean: the mean of the middle half of all runs, strata pooled.

  floor(n/4) runs are dropped at either end, as `scipy.stats.trim_mean(x, 0.25)` and rliable do.
  With fewer than four runs it is the mean.

  Args:
    strata: arrays [..., n_k]; runs on the last axis.

  Returns:
    Array [...].
  """
  runs = np.sort(np.concatenate(_scores(strata), axis=-1), axis=-1)
  n = runs.shape[-1]
  cut = n // 4
  return runs[..., cut:n - cut].mean(axis=-1)


def mean_of_strata(strata: Strata) -> np.ndarray:
  """Mean over strata of the mean over runs: every setting weighs the same. Shapes as in `iqm`."""
  return np.mean([x.mean(axis=-1) for x in _scores(strata)], axis=0)


def bootstrap(strata: Strata, statistic: Callable[[Strata], np.ndarray] = iqm, *,
              confidence: float = 0.95, samples: int = 2000, seed: int = 0) -> Interval:
  """Percentile interval of a statistic by the stratified bootstrap.

  Seeds are drawn with replacement within each stratum. Leading axes (steps of a curve) keep their
  seeds together. The same arguments give the same interval.

  Args:
    strata: arrays [..., n_k]; runs on the last axis.
    statistic: strata -> [...]; reduces the last axis.
    confidence: two-sided level.
    samples: number of resamples.
    seed: of the resampling.

  Returns:
    Interval of arrays [...] (0-d for plain scores); low and high are NaN if some stratum has a
    single run, which says nothing about spread.
  """
  strata = _scores(strata)
  point = statistic(strata)
  if min(x.shape[-1] for x in strata) < 2:
    return Interval(point, np.full_like(point, np.nan), np.full_like(point, np.nan))
  rng = np.random.default_rng(seed)
  draws = []
  for x in strata:
    n = x.shape[-1]
    draws.append(x[..., rng.integers(n, size=(samples, n))])
  tail = (1 - confidence) / 2
  low, high = np.quantile(statistic(draws), [tail, 1 - tail], axis=-1)
  return Interval(point, low, high)


def _beats(x, y):
  return np.mean(x > y, axis=-1) + 0.5 * np.mean(x == y, axis=-1)


def improvement(x: Strata, y: Strata, *, confidence: float = 0.95, samples: int = 2000,
                seed: int = 0) -> Interval:
  """Probability of improvement: P(X > Y) + P(X = Y) / 2 of unpaired runs, mean over strata.

  arXiv:2108.13264, section 4.3: the Mann-Whitney statistic U / (n m) of each stratum. Both arms are
  resampled, each on its own.

  Args:
    x: scores of the arm, arrays [n_k].
    y: scores of the base arm, arrays [m_k], the same strata in the same order.
    confidence, samples, seed: as in `bootstrap`.

  Returns:
    Interval in [0, 1]; 0.5 is no improvement.
  """
  if len(x) != len(y):
    raise ValueError(f'improvement compares the same strata, got {len(x)} and {len(y)}')
  x, y = _scores(x, 'x'), _scores(y, 'y')
  sizes = [(len(a), len(b)) for a, b in zip(x, y, strict=True)]
  joined = [np.concatenate([a, b]) for a, b in zip(x, y, strict=True)]

  def statistic(strata):
    return np.mean([np.mean(_beats(s[..., :n, None], s[..., None, n:]), axis=-1)
                    for s, (n, _) in zip(strata, sizes, strict=True)], axis=0)

  point = statistic(joined)
  if min(min(s) for s in sizes) < 2:
    return Interval(point, np.nan, np.nan)
  rng = np.random.default_rng(seed)
  draws = [np.concatenate([s[:n][rng.integers(n, size=(samples, n))],
                           s[n:][rng.integers(m, size=(samples, m))]], axis=-1)
           for s, (n, m) in zip(joined, sizes, strict=True)]
  tail = (1 - confidence) / 2
  low, high = np.quantile(statistic(draws), [tail, 1 - tail])
  return Interval(point, low, high)


def paired_improvement(differences: Strata, **options) -> Interval:
  """Probability that the arm beats the base under the same seed; ties count half.

  Args:
    differences: arm - base of each shared seed, arrays [n_k].
    **options: as in `bootstrap`. Pairs are resampled whole.

  Returns:
    Interval in [0, 1], mean over strata.
  """
  def statistic(strata):
    return np.mean([_beats(d, np.zeros_like(d)) for d in strata], axis=0)

  return bootstrap(differences, statistic, **options)


def compare(differences: Strata, *, confidence: float = 0.95, power: float = 0.8,
            family: int = 1) -> Comparison:
  """Paired comparison of two arms: mean difference, t interval, two-sided p-value.

  d = mean_k mean(d_k) over the K strata, with variance sum_k s_k^2 / n_k / K^2 and the degrees of
  freedom of Welch and Satterthwaite; with one stratum this is the paired t-test. Differences that
  are all equal have no spread and would give p = 0: then p is that of the sign test, 2^(1-n), the
  most that n pairs can say without an assumption on spread (1 if they are all 0).

  Args:
    differences: arm - base of each shared seed, arrays [n_k].
    confidence: of the interval.
    power: chance of seeing a difference as large as `visible`.
    family: number of comparisons that are corrected together; `visible` holds at the level that
      the smallest p of a family must reach, (1 - confidence) / family.

  Returns:
    A Comparison. Fewer than two pairs in a stratum give NaN for all but the point.
  """
  differences = _scores(differences, 'differences')
  n_K = np.array([len(d) for d in differences])
  pairs = int(n_K.sum())
  if n_K.min() < 1:
    return Comparison(Interval(math.nan, math.nan, math.nan), math.nan, pairs, math.nan)
  point = float(mean_of_strata(differences))
  if n_K.min() < 2:
    return Comparison(Interval(point, math.nan, math.nan), math.nan, pairs, math.nan)
  parts_K = np.array([d.var(ddof=1) for d in differences]) / n_K
  parts_K[[np.ptp(d) <= 1e-12 * np.abs(d).max() for d in differences]] = 0.0
  error = math.sqrt(parts_K.sum()) / len(n_K)
  if error == 0.0:
    p = 1.0 if point == 0.0 else 2.0 ** (1 - pairs)
    return Comparison(Interval(point, point, point), p, pairs, 0.0)
  dof = parts_K.sum() ** 2 / (parts_K ** 2 / (n_K - 1)).sum()
  half = special.stdtrit(dof, (1 + confidence) / 2) * error
  p = 2.0 * special.stdtr(dof, -abs(point) / error)
  visible = error * _noncentrality(dof, (1 - confidence) / family, power)
  return Comparison(Interval(point, point - half, point + half), float(p), pairs, visible)


def holm(p: Sequence[float]) -> np.ndarray:
  """Holm's adjusted p-values: the chance of even one false claim in the family stays below alpha.

  p_(i) -> max_{j <= i} min(1, (m - j + 1) p_(j)). Holm 1979. NaN (no test) stays NaN and does not
  count in m.
  """
  p = np.asarray(p, np.float64)
  out = np.full_like(p, np.nan)
  real = np.flatnonzero(~np.isnan(p))
  order = real[np.argsort(p[real], kind='stable')]
  scaled = p[order] * np.arange(len(order), 0, -1)
  out[order] = np.minimum(1.0, np.maximum.accumulate(scaled)) if len(order) else scaled
  return out


def benjamini_hochberg(p: Sequence[float]) -> np.ndarray:
  """Adjusted p-values for the false discovery rate: p_(i) -> min_{j >= i} min(1, m p_(j) / j).

  Benjamini and Hochberg 1995. NaN stays NaN and does not count in m.
  """
  p = np.asarray(p, np.float64)
  out = np.full_like(p, np.nan)
  real = np.flatnonzero(~np.isnan(p))
  order = real[np.argsort(p[real], kind='stable')]
  scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
  out[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
  return out


def _noncentrality(dof, alpha, power):
  """Shift, in standard errors, that a two-sided t-test sees with the given power.

  The chance of a significant result of the wrong sign is left out: below 1e-6 at usual powers.
  """
  critical = special.stdtrit(dof, 1 - alpha / 2)
  low, high = 0.0, 2 * (critical + special.stdtrit(dof, power)) + 1
  for _ in range(60):
    middle = (low + high) / 2
    seen = 1 - special.nctdtr(dof, middle, critical)
    low, high = (low, middle) if seen > power else (middle, high)
  return float(low + high) / 2


def minimum_effect(n: int, *, paired: bool = False, alpha: float = 0.05,
                   power: float = 0.8) -> float:
  """Smallest effect that `n` seeds an arm can see, in units of spread.

  From the noncentral t distribution: nu = 2n - 2 and shift d sqrt(n / 2) for two independent arms
  (unit: the standard deviation over seeds); nu = n - 1 and shift d sqrt(n) for paired seeds (unit:
  the standard deviation of the differences). Two arms: 3.07 at n = 3, 2.02 at 5, 1.51 at 8.

  Args:
    n: seeds of each arm.
    paired: whether arms share their seeds.
    alpha: two-sided level of the test.
    power: chance of a significant result.

  Returns:
    The effect; infinite for n < 2.
  """
  if n < 2:
    return math.inf
  if paired:
    return _noncentrality(n - 1, alpha, power) / math.sqrt(n)
  return _noncentrality(2 * n - 2, alpha, power) / math.sqrt(n / 2)


def verdict(comparison: Comparison, corrected_p: float, *, alpha: float = 0.05) -> str:
  """'better', 'worse' or 'not distinguishable'.

  A claim needs both: an interval of the paired difference without 0, and a corrected p below alpha.
  """
  d = comparison.difference
  if corrected_p < alpha and d.low > 0:
    return 'better'
  if corrected_p < alpha and d.high < 0:
    return 'worse'
  return 'not distinguishable'


def wilson(share, count: int, z: float = 1.96):
  """(low, high) of a share of `count` independent trials: Wilson 1927, J. Am. Stat. Assoc. 22."""
  share = np.asarray(share, np.float64)
  middle = (share + z * z / (2 * count)) / (1 + z * z / count)
  half = z * np.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2) / (1 + z * z / count)
  return middle - half, middle + half
