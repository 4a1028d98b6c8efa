"""Metrics of how far the policy has moved, and of what the surrogate does about it."""

from collections.abc import Callable
import math

import jax
import jax.numpy as jnp

from grpo import masked
from grpo import types
from grpo.objective import binding
from grpo.objective import quadratic
from grpo.objective import surrogates

__all__ = ['ratio', 'TAILS']

TAILS = (1.2, 2.0, 5.0)  # a usual clip, the band of GLM-5, and a wide mask


def ratio(surrogate: Callable, logp_PGT: jax.Array, old_logp_PGT: jax.Array,
          log_ratio_PGT: jax.Array, credit_) -> dict:
  """How far the policy is from the old one, and what the surrogate does about it.

  clip_fraction is the share of tokens with an advantage whose weight is not the ratio, and
  mask_fraction of those that lost their gradient. A regression (quadratic.py) has no clip and a
  weight that is never the ratio: there clip_fraction is the share of tokens on which its square
  pulls back harder than the advantage pushes, so that the weight is below 0. `ratio/ess` is the
  effective sample size of the token ratios of a row over its tokens, (sum r)^2 / (L sum r^2),
  averaged over rows. `ratio/tail_x` is the share of tokens whose ratio to the anchor is above x or
  below 1 / x.
  """
  mask_PGT, advantages_PGT = credit_.mask_PGT, credit_.advantages_PGT
  weight_PGT = surrogates.gate(surrogate, log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT)
  ratio_PGT = surrogates.ratio(log_ratio_PGT)
  acts_PGT = mask_PGT & (advantages_PGT != 0)
  clipped_PGT = jnp.abs(weight_PGT - ratio_PGT) > 1e-4 * ratio_PGT
  if binding.plain(surrogate) in (quadratic.squared, quadratic.pmd, quadratic.dro):
    clipped_PGT = weight_PGT < 0
  drift_PGT = jnp.clip(logp_PGT - old_logp_PGT, -surrogates.LIMIT, surrogates.LIMIT)
  direct_PGT = masked.clean(jnp.exp(drift_PGT), mask_PGT)
  ess_PG = masked.divide(jnp.square(jnp.sum(direct_PGT, axis=2)),
                         jnp.sum(jnp.square(direct_PGT), axis=2) * jnp.sum(mask_PGT, axis=2))
  size_PGT = jnp.abs(drift_PGT)
  tails = {f'ratio/tail_{x:g}': types.Mean.of(size_PGT > math.log(x), mask_PGT) for x in TAILS}
  return tails | {
      'ratio/clip_fraction': types.Mean.of(clipped_PGT, acts_PGT),
      'ratio/mask_fraction': types.Mean.of(weight_PGT == 0, acts_PGT),
      'ratio/mean': types.Mean.of(ratio_PGT, mask_PGT),
      'ratio/max': types.Peak.of(masked.clean(ratio_PGT, mask_PGT)),
      'ratio/inverse_max': types.Peak.of(masked.clean(1.0 / ratio_PGT, mask_PGT)),
      'ratio/log_abs_max': types.Peak.of(masked.clean(size_PGT, mask_PGT)),
      'ratio/ess': types.Mean.of(ess_PG, jnp.any(mask_PGT, axis=2)),
      'kl/old': types.Mean.of(jnp.expm1(drift_PGT) - drift_PGT, mask_PGT),
  }
