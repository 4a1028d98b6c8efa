"""Importance ratios: the slot `ratio`.

A function maps (logp_PGT, old_logp_PGT, mask_PGT, turn_PGT) to log_ratio_PGT, in nats, 0 off the
mask. `old` is the fixed policy that the update is anchored to. The gradient runs through `logp`.
"""

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.objective import chunks

__all__ = ['token', 'sequence', 'product', 'gspo_token', 'turn', 'none']


def token(logp_PGT: jax.Array, old_logp_PGT: jax.Array, mask_PGT: jax.Array,
          turn_PGT: jax.Array) -> jax.Array:
  """Each token by itself: logp - old_logp. Schulman et al. 2017, arXiv:1707.06347, eq. 6."""
  del turn_PGT
  old_logp_PGT = jax.lax.stop_gradient(masked.clean(old_logp_PGT, mask_PGT))
  return masked.clean(logp_PGT, mask_PGT) - old_logp_PGT


def sequence(logp_PGT: jax.Array, old_logp_PGT: jax.Array, mask_PGT: jax.Array,
             turn_PGT: jax.Array) -> jax.Array:
  """Mean over the trajectory's trained tokens, on each of them: the length-normalised ratio.

  Zheng et al. 2025, arXiv:2507.18071 (GSPO), eq. 7. Each of the L tokens has 1 / L of the gradient.
  Clip ranges of about 3e-4 belong to it; 0.2 would never clip. The paper's loss is that of
  aggregate `sequence`; another one weighs sequences by length.
  """
  log_ratio_PGT = token(logp_PGT, old_logp_PGT, mask_PGT, turn_PGT)
  mean_PG1 = masked.mean(log_ratio_PGT, mask_PGT, axis=2, keepdims=True)
  return jnp.where(mask_PGT, mean_PG1, 0.0)


def product(logp_PGT: jax.Array, old_logp_PGT: jax.Array, mask_PGT: jax.Array,
            turn_PGT: jax.Array) -> jax.Array:
  """Sum over the trajectory's trained tokens, on each of them: the ratio of whole rows.

  The exact importance ratio of a trajectory, of huge variance; for `quadratic.py` and
  `trust.vespo`. Each token has the full gradient.
  """
  log_ratio_PGT = token(logp_PGT, old_logp_PGT, mask_PGT, turn_PGT)
  sum_PG1 = masked.total(log_ratio_PGT, mask_PGT, axis=2, keepdims=True)
  return jnp.where(mask_PGT, sum_PG1, 0.0)


def gspo_token(logp_PGT: jax.Array, old_logp_PGT: jax.Array, mask_PGT: jax.Array,
               turn_PGT: jax.Array) -> jax.Array:
  """Value of `sequence`, gradient of the token: sg[sequence] + logp - sg[logp].

  arXiv:2507.18071, eq. 14. With equal advantages along a row and aggregate `sequence`, value and
  gradient are those of `sequence`; it allows an advantage for each token.
  """
  value_PGT = sequence(logp_PGT, old_logp_PGT, mask_PGT, turn_PGT)
  logp_PGT = masked.clean(logp_PGT, mask_PGT)
  return jax.lax.stop_gradient(value_PGT) + logp_PGT - jax.lax.stop_gradient(logp_PGT)


def turn(logp_PGT: jax.Array, old_logp_PGT: jax.Array, mask_PGT: jax.Array,
         turn_PGT: jax.Array) -> jax.Array:
  """Mean over the trained tokens of a turn, on each of them. ST-PPO, arXiv:2511.20718."""
  log_ratio_PGT = token(logp_PGT, old_logp_PGT, mask_PGT, turn_PGT)
  chunk_PGT, count = chunks.turn(mask_PGT, turn_PGT, turn_PGT, count=logp_PGT.shape[2])
  tokens_PGK = chunks.tokens(chunk_PGT, count).astype(log_ratio_PGT.dtype)
  mean_PGK = masked.divide(chunks.total(log_ratio_PGT, chunk_PGT, count), tokens_PGK)
  return chunks.spread(mean_PGK, chunk_PGT)


def none(logp_PGT: jax.Array, old_logp_PGT: jax.Array, mask_PGT: jax.Array,
         turn_PGT: jax.Array) -> jax.Array:
  """No correction: 0 with the gradient of logp, so the ratio is 1 and never clipped.

  For `surrogates.reinforce`, which reads logp alone, and for the ablation of any other surrogate
  without its ratio. The old policy is not read.
  """
  del old_logp_PGT, turn_PGT
  logp_PGT = masked.clean(logp_PGT, mask_PGT)
  return logp_PGT - jax.lax.stop_gradient(logp_PGT)
