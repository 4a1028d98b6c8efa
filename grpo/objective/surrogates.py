"""Policy losses of a token: the slot `surrogate`.

A function maps (log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT) to loss_PGT, to be minimised,
0 off the mask. Below r = exp(log_ratio), log_ratio is clamped to [-20, 20] nats first, A is the
advantage, and sg[] stops the gradient. At r = 1 every one of them has the gradient -A grad logp.
The value of a loss means little (it is 0 at the first step of centred advantages); watch `gate`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from grpo import masked

__all__ = ['reinforce', 'ppo_clip', 'dis', 'two_bands', 'cispo']

LIMIT = 20.0


def ratio(log_ratio: jax.Array) -> jax.Array:
  """exp of the log-ratio, clamped to [-20, 20] nats."""
  return jnp.exp(jnp.clip(log_ratio, -LIMIT, LIMIT))


def reinforce(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
              mask_PGT: jax.Array) -> jax.Array:
  """-A logp. Williams 1992. No ratio, so the data must come from the current policy."""
  del log_ratio_PGT
  return -masked.clean(advantages_PGT, mask_PGT) * masked.clean(logp_PGT, mask_PGT)


def ppo_clip(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
             mask_PGT: jax.Array, *, low: float, high: float,
             dual: float | None = None) -> jax.Array:
  """max(-A r, -A clip(r, 1 - low, 1 + high)), and for A < 0 at most -A dual.

  Schulman et al. 2017, arXiv:1707.06347, eq. 7; two ranges: DAPO, arXiv:2503.14476, section 3.1;
  dual clip: Ye et al. 2020, arXiv:1912.09729, eq. 5. The gradient is lost where A > 0 and
  r > 1 + high, or A < 0 and r < 1 - low. Elsewhere the weight is r, which for A < 0 has no bound
  unless `dual` (> 1) gives one.
  """
  del logp_PGT
  advantages_PGT = masked.clean(advantages_PGT, mask_PGT)
  ratio_PGT = ratio(masked.clean(log_ratio_PGT, mask_PGT))
  clipped_PGT = jnp.clip(ratio_PGT, 1.0 - low, 1.0 + high)
  loss_PGT = jnp.maximum(-advantages_PGT * ratio_PGT, -advantages_PGT * clipped_PGT)
  if dual is not None:
    capped_PGT = jnp.minimum(loss_PGT, -advantages_PGT * dual)
    loss_PGT = jnp.where(advantages_PGT < 0, capped_PGT, loss_PGT)
  return masked.clean(loss_PGT, mask_PGT)


def dis(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
        mask_PGT: jax.Array, *, low: float, high: float) -> jax.Array:
  """-sg[f] A logp with f = r if 1 - low < r < 1 + high, else 0: both sides, both signs of A.

  SAO, arXiv:2607.07508; GLM-5, arXiv:2602.15763. The paper's ratio is against the policy that
  sampled (`old` = sampler). It leaves open whether f is detached and whether dropped tokens stay in
  the divisor: here f is detached, and they stay.
  """
  ratio_PGT = ratio(masked.clean(log_ratio_PGT, mask_PGT))
  inside_PGT = (ratio_PGT > 1.0 - low) & (ratio_PGT < 1.0 + high)
  weight_PGT = jax.lax.stop_gradient(jnp.where(inside_PGT, ratio_PGT, 0.0))
  return weight_PGT * reinforce(log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT)


def two_bands(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
              mask_PGT: jax.Array, *, up_low: float, up_high: float, down_low: float,
              down_high: float) -> jax.Array:
  """-sg[f] A logp with f = r inside a band, else 0; one band for A > 0 (up), one for A < 0 (down).

  What clipping, masking and neither have in common, as four ratios that one program can take: its
  gradient is that of `ppo_clip` for the bands (0, 1 + high) and (1 - low, inf), that of `dis` for
  twice (1 - low, 1 + high), and that of an unbounded ratio for twice (0, inf). Bounds are ratios,
  not distances from 1, and outside the bands.
  """
  advantages_PGT = masked.clean(advantages_PGT, mask_PGT)
  ratio_PGT = ratio(masked.clean(log_ratio_PGT, mask_PGT))
  up_PGT = (ratio_PGT > up_low) & (ratio_PGT < up_high)
  down_PGT = (ratio_PGT > down_low) & (ratio_PGT < down_high)
  inside_PGT = jnp.where(advantages_PGT > 0, up_PGT, down_PGT)
  weight_PGT = jax.lax.stop_gradient(jnp.where(inside_PGT, ratio_PGT, 0.0))
  return weight_PGT * reinforce(log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT)


def cispo(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
          mask_PGT: jax.Array, *, low: float, high: float) -> jax.Array:
  """-sg[clip(r, 1 - low, 1 + high)] A logp: the weight is clipped, the gradient never lost.

  MiniMax-M1, arXiv:2506.13585, section 3.1. low = 1 leaves only the upper bound, which is how the
  paper uses it; its `high` is not published. The bound is 1 + high, not high.
  """
  ratio_PGT = ratio(masked.clean(log_ratio_PGT, mask_PGT))
  weight_PGT = jax.lax.stop_gradient(jnp.clip(ratio_PGT, 1.0 - low, 1.0 + high))
  return weight_PGT * reinforce(log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT)


def gate(surrogate: Callable, log_ratio_PGT: jax.Array, logp_PGT: jax.Array,
         advantages_PGT: jax.Array, mask_PGT: jax.Array) -> jax.Array:
  """The weight w that a surrogate puts on A grad logp, by differentiating it. 0 where A is 0.

  w = r where the token is untouched, 0 where its gradient is lost, between where it is clipped.
  """
  args = jax.lax.stop_gradient((log_ratio_PGT, logp_PGT))
  advantages_PGT = jax.lax.stop_gradient(masked.clean(advantages_PGT, mask_PGT))
  loss = lambda log_ratio, logp: jnp.sum(surrogate(log_ratio, logp, advantages_PGT, mask_PGT))
  through_ratio_PGT, through_logp_PGT = jax.grad(loss, argnums=(0, 1))(*args)
  return masked.divide(-(through_ratio_PGT + through_logp_PGT), advantages_PGT)
