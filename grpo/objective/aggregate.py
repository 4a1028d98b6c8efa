"""From token losses to a scalar: the slot `aggregate`.

A function maps mask_PGT, the trained tokens of one whole optimiser batch after every filter, to
weights_PGT, 0 off the mask; the loss is sum(weights * x). The division happens here and nowhere
else, and before the batch is split: sums over micro-batches and devices are then exact. An empty
mask gives weights 0. Below N is the number of rows with at least one trained token and L_i the
number of trained tokens of row i; a row dropped by a filter is in neither.
"""

import jax
import jax.numpy as jnp

from grpo import masked

__all__ = ['token', 'sequence', 'sequence_sum', 'constant_length', 'token_sum',
           'window']


def token(mask_PGT: jax.Array) -> jax.Array:
  """1 / sum_i L_i: every token counts the same. DAPO, arXiv:2503.14476, section 3.3."""
  return _over(mask_PGT, _count(mask_PGT, None))


def sequence(mask_PGT: jax.Array) -> jax.Array:
  """1 / (N L_i): every row counts the same. GRPO, arXiv:2402.03300, eq. 3.

  A token of a long row counts less: long wrong answers are punished less for each token
  (arXiv:2503.20783, section 3.1).
  """
  return _over(mask_PGT, _rows(mask_PGT) * _count(mask_PGT, 2))


def window(mask_PGT: jax.Array, *, window: int) -> jax.Array:
  """1 / (W L_w): every context window with a trained token counts the same; W is their number.

  `sequence` for those who cut a trajectory and train on its windows as if each were a sample; a
  trajectory of more windows counts more. `window` is L, the positions of one: `Layout.length`.
  """
  P, G, T = mask_PGT.shape
  if T % window:
    raise ValueError(f'aggregate.window: window={window} must divide the {T} positions of a row')
  mask_PNL = mask_PGT.reshape(P, -1, window)
  return sequence(mask_PNL).reshape(P, G, -1)


def sequence_sum(mask_PGT: jax.Array) -> jax.Array:
  """1 / N: the log-probability of a row is the sum over its tokens. RLOO, arXiv:2402.14740."""
  return _over(mask_PGT, _rows(mask_PGT))


def constant_length(mask_PGT: jax.Array, *, length: int, rows: str = 'trained') -> jax.Array:
  """1 / (N length). Dr. GRPO, arXiv:2503.20783, section 3.2.

  Args:
    mask_PGT: trained tokens.
    length: bound on the trained tokens of an episode, all turns together: `Layout.max_trained`.
    rows: 'trained' counts rows with a trained token, 'all' counts the rows of the batch, so that
      the divisor does not depend on what was kept.
  """
  if rows not in ('trained', 'all'):
    raise ValueError(f'aggregate.constant_length: rows={rows!r}; allowed: trained, all')
  size = mask_PGT.shape[0] * mask_PGT.shape[1]
  number = _rows(mask_PGT) if rows == 'trained' else jnp.full((1, 1, 1), size, float)
  return _over(mask_PGT, number * length)


def token_sum(mask_PGT: jax.Array) -> jax.Array:
  """1: no divisor. The learning rate then depends on the batch."""
  return _over(mask_PGT, jnp.ones((1, 1, 1), float))


def apply(weights_PGT: jax.Array, x_PGT: jax.Array) -> jax.Array:
  """sum(weights * x) over tokens with a weight; what `x` holds elsewhere does not matter."""
  return jnp.sum(weights_PGT * masked.clean(x_PGT, weights_PGT != 0))


def _count(mask_PGT, axis):
  return masked.count(mask_PGT, axis=axis, keepdims=True, dtype=float)


def _rows(mask_PGT):
  return _count(jnp.any(mask_PGT, axis=2, keepdims=True), None)


def _over(mask_PGT, divisor):
  return jnp.where(mask_PGT, masked.divide(jnp.ones_like(divisor), divisor), 0.0)
