"""Measures of reliability over repeated episodes of the same prompts."""

import math

import numpy as np

__all__ = ['pass_at', 'pass_hat']


def _check(solved, k, scored):
  """(solved, scored) repeats of each prompt that has at least k of the latter."""
  solved = np.asarray(solved, bool)
  if solved.ndim != 2:
    raise ValueError(f'solved must be [prompts, repeats], got shape {solved.shape}')
  n = solved.shape[1]
  if not 1 <= k <= n:
    raise ValueError(f'k={k}: must be in 1..{n}, the number of repeats of each prompt')
  scored = np.ones_like(solved) if scored is None else np.asarray(scored, bool)
  pairs = zip((solved & scored).sum(axis=1).tolist(), scored.sum(axis=1).tolist(), strict=True)
  return [(c, n) for c, n in pairs if n >= k]


def pass_at(solved, k: int, scored=None) -> float:
  """Probability that at least one of k repeats is solved: mean of 1 - C(n-c, k) / C(n, k).

  Chen et al. 2021, arXiv:2107.03374, section 2.1; unbiased, without replacement.

  Args:
    solved: bool [prompts, repeats n]; failed and unfinished episodes are False and stay in n.
    k: at most n.
    scored: bool like `solved`, or None for all. Episodes that could not be scored are not in n, and
      prompts with fewer than k others are left out; NaN if that leaves none.
  """
  found = _check(solved, k, scored)
  return float(np.mean([1.0 - math.comb(n - c, k) / math.comb(n, k) for c, n in found])
               if found else math.nan)


def pass_hat(solved, k: int, scored=None) -> float:
  """Probability that all of k repeats are solved: mean of C(c, k) / C(n, k).

  Yao et al. 2024, arXiv:2406.12045 (tau-bench), section 3. Arguments as for `pass_at`.
  """
  found = _check(solved, k, scored)
  return float(np.mean([math.comb(c, k) / math.comb(n, k) for c, n in found])
               if found else math.nan)
