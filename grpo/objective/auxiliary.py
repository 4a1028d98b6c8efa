"""Further losses that are linear in logp: the slot `auxiliary`, a tuple.

A function maps (success_PG, mask_PGT) to weights_PGT; its loss is -sum(weights * logp). Like those
of `aggregate.py`, weights are counted once over a whole optimiser batch, so that splitting it is
exact. `mask` holds the trained tokens after every filter.
"""

import jax
import jax.numpy as jnp

from grpo.objective import aggregate

__all__ = ['positive_nll']


def positive_nll(success_PG: jax.Array, mask_PGT: jax.Array, *, coef: float) -> jax.Array:
  """Negative log-likelihood of solved episodes: coef / (trained tokens of those).

  VAPO, arXiv:2504.05118, section 4.4 (coef 0.1). No ratio, no advantage. 0 if none is solved.
  """
  positive_PGT = mask_PGT & (success_PG > 0.5)[..., None]
  return jnp.asarray(coef) * aggregate.token(positive_PGT)
