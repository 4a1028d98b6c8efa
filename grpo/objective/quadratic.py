"""Regression losses of the mirror-descent family for the slot `surrogate`.

The optimum of one KL-regularised step is pi* ~ pi_old exp(A / tau), so log(pi / pi_old) is fitted
to A / tau. Signature as in `surrogates.py`. There is no clip: the square itself holds the policy
near the old one. S is the log-ratio of the whole row, the sum over its tokens: ratio `product`.
"""

import jax
import jax.numpy as jnp

from grpo import masked

__all__ = ['squared', 'pmd', 'dro']


def squared(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
            mask_PGT: jax.Array, *, tau: float) -> jax.Array:
  """(A - tau S)^2 on each token of the row. Kimi k1.5, arXiv:2501.12599, section 2.3.2.

  The paper's log-partition is the mean reward of the group: advantages `group_center`. Aggregate
  `sequence` makes it the mean square of rows. At S = 0 the gradient of a row is 2 tau times that of
  REINFORCE.
  """
  del logp_PGT
  gap_PGT = masked.clean(advantages_PGT, mask_PGT) - tau * masked.clean(log_ratio_PGT, mask_PGT)
  return masked.clean(jnp.square(gap_PGT), mask_PGT)


def pmd(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
        mask_PGT: jax.Array, *, tau: float = 0.01) -> jax.Array:
  """0.5 tau (A / tau - S)^2 / L on each of the row's L tokens. arXiv:2602.05933 (OpenKimi).

  With aggregate `sequence` this is the paper's length-normalised loss, and at S = 0 its gradient is
  that of REINFORCE with the same aggregate. Written as (A - tau S)^2 / (2 tau), which does not
  divide A by a small tau before squaring.
  """
  length_PG1 = masked.count(mask_PGT, axis=2, keepdims=True, dtype=log_ratio_PGT.dtype)
  square_PGT = squared(log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT, tau=tau)
  return masked.divide(square_PGT, 2.0 * tau * jnp.broadcast_to(length_PG1, square_PGT.shape))


def dro(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
        mask_PGT: jax.Array, *, beta: float) -> jax.Array:
  """-(A logp - 0.5 beta (logp - old)^2): squares the log-ratio of a token, not of a row.

  Richemond et al. 2024, arXiv:2405.19107. For L tokens of equal drift d the penalty is L d^2, where
  that of `squared` is L^2 d^2. Needs the ratio of tokens.
  """
  gain_PGT = masked.clean(advantages_PGT, mask_PGT) * masked.clean(logp_PGT, mask_PGT)
  square_PGT = jnp.square(masked.clean(log_ratio_PGT, mask_PGT))
  return masked.clean(0.5 * beta * square_PGT - gain_PGT, mask_PGT)


