"""Measures of reliability over repeated episodes of the same prompts."""

import math

import numpy as np

__all__ = ['pass_at', 'pass_hat']


def _check(solved, k):
  solved = np.asarray(solved, bool)
  if solved.ndim != 2:
    raise ValueError(f'solved must be [prompts, repeats], got shape {solved.shape}')
  n = solved.shape[1]
  if not 1 <= k <= n:
    raise ValueError(f'k={k}: must be in 1..{n}, the number of repeats of each prompt')
  return solved.sum(axis=1), n


def pass_at(solved, k: int) -> float:
  """Probability that at least one of k repeats is solved: mean of 1 - C(n-c, k) / C(n, k).

  Chen et al. 2021, arXiv:2107.03374, section 2.1; unbiased, without replacement.

  Args:
    solved: bool [prompts, repeats n]; failed and unfinished episodes are False and stay in n.
    k: at most n.
  """
  counts, n = _check(solved, k)
  return float(np.mean([1.0 - math.comb(n - int(c), k) / math.comb(n, k) for c in counts]))


def pass_hat(solved, k: int) -> float:
  """Probability that all of k repeats are solved: mean of C(c, k) / C(n, k).

  Yao et al. 2024, arXiv:2406.12045 (tau-bench), section 3. Arguments as for `pass_at`.
  """
  counts, n = _check(solved, k)
  return float(np.mean([math.comb(int(c), k) / math.comb(n, k) for c in counts]))
