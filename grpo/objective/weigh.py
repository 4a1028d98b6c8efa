"""Weights of tokens and prompts by what was sampled: the slot `weigh`, labelled and combined.

A function maps (facts, tokens_PGT, mask_PGT) to weight_PGT or something that broadcasts to it. It
multiplies everything a token has in the loss, KL and entropy terms too, after the divisor has been
counted. `tokens` holds ids, -1 where a position is empty.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.objective import filters

__all__ = ['prefix_share', 'uncertainty', 'admission']


def prefix_share(facts: filters.Facts, tokens_PGT: jax.Array, mask_PGT: jax.Array) -> jax.Array:
  """1 / (samples of the group that train this token after the same stream, this one included).

  lambda-GRPO, arXiv:2509.21154: a step shared by many samples would count once for each
  of them. A later accidental match does not count, nor does a sample that does not train the
  token, such as one without a score. Not the learnable lambda-GRPO of
  arXiv:2510.06870, which weighs lengths. Memory is G [P,G,T] arrays.
  """
  del facts
  same_PGGT = tokens_PGT[:, :, None] == tokens_PGT[:, None]
  same_PGGT = jax.lax.cummin(same_PGGT.astype(jnp.int32), axis=3)
  count_PGT = jnp.sum(jnp.where(mask_PGT[:, None], same_PGGT, 0), axis=2)
  return jnp.where(mask_PGT, 1.0 / jnp.maximum(count_PGT, 1), 0.0)


def uncertainty(facts: filters.Facts, tokens_PGT: jax.Array, mask_PGT: jax.Array, *,
                by: str = 'success', floor: float = 0.05) -> jax.Array:
  """sqrt(p (1 - p)) + floor over its mean: prompts that are sometimes solved count more.

  The sampling weight of single-stream SPO, arXiv:2509.13232, used as a weight of the
  loss: in expectation that is what drawing prompts in proportion does; it saves no rollouts.

  Args:
    facts: of the batch.
    tokens_PGT: not read.
    mask_PGT: trained tokens; prompts without any do not count in the mean.
    by: 'success', the share of the group that is solved, or 'baseline', the estimate of a memory
      slot before this batch.
    floor: added to each weight.
  """
  del tokens_PGT
  on_PG = jnp.any(mask_PGT, axis=2)
  if by == 'success':
    p_PG = masked.mean(facts.success_PG, on_PG, axis=1, keepdims=True)
  elif by == 'baseline':
    if facts.baseline_PG is None:
      raise ValueError("weigh.uncertainty: by='baseline' needs a memory slot that keeps one")
    p_PG = facts.baseline_PG
  else:
    raise ValueError(f'weigh.uncertainty: by={by!r}; allowed: success, baseline')
  p_PG = jnp.broadcast_to(jnp.clip(p_PG, 0.0, 1.0), on_PG.shape)
  weight_PG = jnp.sqrt(p_PG * (1.0 - p_PG)) + floor
  mean_11 = masked.mean(weight_PG, on_PG, axis=(0, 1), keepdims=True)
  return (weight_PG * masked.divide(jnp.ones_like(mean_11), mean_11))[..., None]


def admission(facts: filters.Facts, tokens_PGT: jax.Array, mask_PGT: jax.Array, *,
              max_lag: int, sigma: float, most: float = 10.0) -> jax.Array:
  """1 / P(the group was admitted | its lengths), over its mean: short rollouts count less.

  For durations d = l exp(sigma z - sigma^2 / 2) (`delays.by_length`) and the filter `fresh`. With
  no limit every rollout is trained on once, sooner or later, so in the long run no length is
  over-represented. A limit admits a group if the steps since its start, each of which takes the
  time tau on average, let its slowest member end: max_g d_g <= (max_lag + 1) tau. Hence

    pi = prod_g Phi((log((max_lag + 1) tau / l_g) + sigma^2 / 2) / sigma)

  and E[sum x / pi over admitted] = E[sum x over all that began] (Horvitz and Thompson 1952).
  Divided by its mean over admitted rows, so that a step keeps its size (Hajek). Weights are cut at
  `most` before that; lengths that are admitted more rarely than 1 in `most` stay under-represented,
  and those that never are cannot be brought back. tau is an average, a group meets its own steps:
  in simulation the mean length comes within 2 % of the truth, where the filter alone is off by 19 %
  for single rollouts and by 6 % for groups of four.

  Args:
    facts: of the batch; `pace` is tau.
    tokens_PGT: not read.
    mask_PGT: trained tokens, before any filter.
    max_lag: of the filter.
    sigma: of the delay, above 0.
    most: largest 1 / pi.
  """
  del tokens_PGT
  if facts.pace is None:
    raise ValueError('weigh.admission: nothing takes time here; it needs sample.delay=by_length')
  on_PG = jnp.any(mask_PGT, axis=2)
  length_PG = jnp.maximum(facts.lengths_PG, 1).astype(jnp.float32)
  time = (max_lag + 1) * jnp.maximum(facts.pace, 1e-6)
  done_PG = jax.scipy.special.ndtr((jnp.log(time / length_PG) + sigma**2 / 2) / sigma)
  pi_P1 = jnp.prod(done_PG, axis=1, keepdims=True)
  weight_PG = jnp.broadcast_to(1.0 / jnp.maximum(pi_P1, 1.0 / most), on_PG.shape)
  kept_PG = on_PG & filters.fresh(facts, max_lag=max_lag)
  mean_11 = masked.mean(weight_PG, kept_PG, axis=(0, 1), keepdims=True)
  return (weight_PG * masked.divide(jnp.ones_like(mean_11), mean_11))[..., None]


def combine(slots: tuple[Callable, ...], facts: filters.Facts, tokens_PGT: jax.Array,
            mask_PGT: jax.Array) -> jax.Array | None:
  """Product of all weights; None without any."""
  if not slots:
    return None
  weight_PGT = mask_PGT.astype(facts.reward_PG.dtype)
  for slot in slots:
    weight_PGT = weight_PGT * slot(facts, tokens_PGT, mask_PGT)
  return weight_PGT
