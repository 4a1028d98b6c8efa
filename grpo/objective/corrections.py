"""Corrections for data of another policy: the slot `correction`, labelled and freely combined.

A function maps (old_logp_PGT, sampler_logp_PGT, mask_PGT) to (weight_PGT, keep_PGT). Below
x = old - sampler in nats and k = exp(x), clamped to [-20, 20] nats: how far the anchor of the
update (`method.old` = recomputed) is from the policy that sampled, by staleness or by another
engine. Weights are data: they change the measure, not the objective.

  weight_PGT   multiplies the surrogate, outside its clipping; a token of weight 0 stays in the
               divisor and under the KL term, so the gradient shrinks with what is kept
  keep_PGT     a token that is not kept leaves the mask, hence the divisor as well

Weights of several corrections are multiplied; a token stays if all of them keep it. `tis` and
`icepop` weigh by k, at whatever level, so a method has one of them: two would weigh by k twice.
`m2po` and `reject` have weights of 0 and 1, go with any, and correct no lag by themselves. As the
weight is k, the ratio of the surrogate must be against `old` and not against the sampler: with
`method.old` = sampler both would say the same twice. `check.py` refuses what does.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from grpo import masked

__all__ = ['tis', 'icepop', 'm2po', 'reject']

_LIMIT = 20.0


def tis(old_logp_PGT: jax.Array, sampler_logp_PGT: jax.Array, mask_PGT: jax.Array, *,
        cap: float = 2.0, floor: float = 0.0, level: str = 'token',
        normalise: str = 'none') -> tuple[jax.Array, jax.Array]:
  """Truncated importance sampling: w = clip(k, floor, cap).

  Munos et al. 2016, arXiv:1606.02647, for the idea; as the weight pi_prox / pi_behave
  of a decoupled clip: Hilton et al. 2021, arXiv:2110.00641; AReaL, arXiv:2505.24298.

  Args:
    old_logp_PGT: log-probs under the anchor.
    sampler_logp_PGT: log-probs as they were sampled.
    mask_PGT: trained tokens.
    cap: largest weight.
    floor: smallest weight; 0 truncates one side only.
    level: 'token', 'sequence' (k is the product over the row, unbiased before truncation) or
      'geometric' (its L-th root: bounded, biased).
    normalise: 'batch' divides by the mean weight: over tokens, or over rows for the other levels.
  """
  if normalise not in ('none', 'batch'):
    raise ValueError(f'corrections.tis: normalise={normalise!r}; allowed: none, batch')
  log, members = _level(old_logp_PGT, sampler_logp_PGT, mask_PGT, level, 'tis')
  weight = jnp.clip(jnp.exp(log), floor, cap)
  if normalise == 'batch':
    weight = masked.divide(weight, masked.mean(weight, members, axis=(0, 1, 2), keepdims=True))
  return _spread(weight, mask_PGT), jnp.ones_like(mask_PGT)


def icepop(old_logp_PGT: jax.Array, sampler_logp_PGT: jax.Array, mask_PGT: jax.Array, *,
           low: float = 0.5, high: float = 5.0,
           level: str = 'token') -> tuple[jax.Array, jax.Array]:
  """Masked importance sampling: w = k if low <= k <= high, else 0.

  Ring-1T, arXiv:2510.18855 (IcePop, [0.5, 5]); GLM-5, arXiv:2602.15763 ([1/2, 2]). `level` as in
  `tis`: with 'sequence' or 'geometric' a whole row is weighted or masked (MIS).
  """
  log, _ = _level(old_logp_PGT, sampler_logp_PGT, mask_PGT, level, 'icepop')
  k = jnp.exp(log)
  weight = jnp.where((k >= low) & (k <= high), k, 0.0)
  return _spread(weight, mask_PGT), jnp.ones_like(mask_PGT)


def m2po(old_logp_PGT: jax.Array, sampler_logp_PGT: jax.Array, mask_PGT: jax.Array, *,
         tau: float = 0.04) -> tuple[jax.Array, jax.Array]:
  """Drops the largest x^2 until the mean of the rest is below tau: w is 1 or 0.

  M2PO, arXiv:2510.01161. The tokens of the whole batch are sorted together; at least one stays. The
  paper writes x with the policy that is trained; implementations use the anchor, as here. Its loss
  has no clip: surrogate `importance`.
  """
  square_PGT = jnp.square(_log(old_logp_PGT, sampler_logp_PGT, mask_PGT))
  rank_PGT, sorted_N = ranks(square_PGT, mask_PGT)
  index_N = jnp.arange(1, sorted_N.size + 1)
  means_N = jnp.cumsum(jnp.where(jnp.isfinite(sorted_N), sorted_N, 0.0)) / index_N
  number = jnp.maximum(1, jnp.sum((means_N < tau) & jnp.isfinite(sorted_N)))
  weight_PGT = (mask_PGT & (rank_PGT < number)).astype(square_PGT.dtype)
  return weight_PGT, jnp.ones_like(mask_PGT)


def reject(old_logp_PGT: jax.Array, sampler_logp_PGT: jax.Array, mask_PGT: jax.Array, *,
           kind: str = 'k3', level: str = 'mean', high: float,
           low: float | None = None) -> tuple[jax.Array, jax.Array]:
  """Keeps tokens or whole rows whose divergence is small; the rest leaves the divisor too.

  Per token k1 = -x, k2 = x^2 / 2, k3 = exp(x) - 1 - x. k2 and k3 stay if their value is at most
  `high`. For k1 both bounds are ratios sampler / old: log low <= -x <= log high, `low` defaults to
  1 / high. level='mean' of k1 is the geometric filter, 'max' of k2 or k3 is Trust Region Masking,
  arXiv:2512.23075.

  Args:
    old_logp_PGT: log-probs under the anchor.
    sampler_logp_PGT: log-probs as they were sampled.
    mask_PGT: trained tokens.
    kind: 'k1', 'k2' or 'k3'.
    level: 'token', or a row's 'sum', 'mean' or 'max'.
    high: upper bound.
    low: lower bound of k1; no other kind has one.
  """
  x_PGT = _log(old_logp_PGT, sampler_logp_PGT, mask_PGT)
  kinds = dict(k1=lambda: -x_PGT, k2=lambda: 0.5 * jnp.square(x_PGT),
               k3=lambda: jnp.expm1(x_PGT) - x_PGT)
  levels = dict(token=None, sum=_row(masked.total), mean=_row(masked.mean),
                max=_row(masked.high))
  if kind not in kinds or level not in levels:
    raise ValueError(f'corrections.reject: kind={kind!r}, level={level!r}; allowed: '
                     f'{", ".join(kinds)} and {", ".join(levels)}')
  if low is not None and kind != 'k1':
    raise ValueError(f'corrections.reject: kind={kind!r} has no lower bound')
  value = kinds[kind]()
  value = value if level == 'token' else levels[level](value, mask_PGT)
  if kind == 'k1':
    low = 1.0 / high if low is None else low
    keep = (value >= jnp.log(low)) & (value <= jnp.log(high))
  else:
    keep = value <= high
  return mask_PGT.astype(x_PGT.dtype), jnp.broadcast_to(keep, mask_PGT.shape)


def combine(slots: tuple[Callable, ...], old_logp_PGT: jax.Array, sampler_logp_PGT: jax.Array,
            mask_PGT: jax.Array) -> tuple[jax.Array | None, jax.Array]:
  """Product of the weights (None without corrections) and the tokens that all of them keep."""
  weight_PGT, keep_PGT = None, mask_PGT
  for slot in slots:
    w_PGT, k_PGT = slot(old_logp_PGT, sampler_logp_PGT, mask_PGT)
    weight_PGT = w_PGT if weight_PGT is None else weight_PGT * w_PGT
    keep_PGT = keep_PGT & k_PGT
  return weight_PGT, keep_PGT


def ranks(x_PGT: jax.Array, mask_PGT: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Rank from below of each token of the mask among all of them, and the sorted values [N].

  Off the mask the value is infinite, so those come last. Equal values keep their order.
  """
  x_N = jnp.ravel(masked.clean(x_PGT, mask_PGT, jnp.inf))
  order_N = jnp.argsort(x_N)
  rank_N = jnp.zeros(x_N.shape, jnp.int32).at[order_N].set(jnp.arange(x_N.size, dtype=jnp.int32))
  return rank_N.reshape(x_PGT.shape), x_N[order_N]


def _log(old_logp_PGT, sampler_logp_PGT, mask_PGT):
  x_PGT = masked.clean(old_logp_PGT, mask_PGT) - masked.clean(sampler_logp_PGT, mask_PGT)
  return jnp.clip(x_PGT, -_LIMIT, _LIMIT)


def _row(reduce):
  return lambda x_PGT, mask_PGT: reduce(x_PGT, mask_PGT, axis=2, keepdims=True)


def _level(old_logp_PGT, sampler_logp_PGT, mask_PGT, level, name):
  """log k at a level, and which of its entries count."""
  x_PGT = _log(old_logp_PGT, sampler_logp_PGT, mask_PGT)
  levels = dict(sequence=masked.total, geometric=masked.mean)
  if level == 'token':
    return x_PGT, mask_PGT
  if level not in levels:
    raise ValueError(f'corrections.{name}: level={level!r}; allowed: token, sequence, geometric')
  log_PG1 = _row(levels[level])(x_PGT, mask_PGT)
  return jnp.clip(log_PG1, -_LIMIT, _LIMIT), jnp.any(mask_PGT, axis=2, keepdims=True)


def _spread(weight, mask_PGT):
  return jnp.where(mask_PGT, weight, 0.0)
