"""Reductions under a mask: the only place that divides by a mask.

`mask` is boolean and broadcastable to `x`. Values off the mask are replaced before they are used,
so inf and NaN there change neither the result nor its gradient. An empty mask gives 0 with zero
gradient.
"""

import jax
import jax.numpy as jnp

__all__ = ['clean', 'total', 'count', 'running_count', 'mean', 'var', 'std', 'low', 'high',
           'divide', 'suffix_sum', 'last_index', 'spread_range']

_BLOCK = 64  # entries that `running_count` adds up in one product


def _mask(x, mask):
  return jnp.broadcast_to(jnp.asarray(mask, bool), jnp.shape(x))


def clean(x, mask, fill=0.0):
  """`x` on the mask and `fill` off it."""
  return jnp.where(_mask(x, mask), x, jnp.asarray(fill, jnp.asarray(x).dtype))


def total(x, mask, axis=None, keepdims=False):
  """Sum over the mask."""
  return jnp.sum(clean(x, mask), axis=axis, keepdims=keepdims)


def count(mask, axis=None, keepdims=False, dtype=jnp.float32):
  """Number of entries on the mask."""
  return jnp.sum(jnp.asarray(mask, bool), axis=axis, keepdims=keepdims, dtype=dtype)


def running_count(mask):
  """Number of entries on the mask up to each position of the last axis, it included; int32.

  Two products with a triangle of ones, of blocks and inside them: for a CPU XLA takes a `cumsum`
  apart into several kernels, each of which is compiled. Exact up to 2^24 entries.
  """
  length = mask.shape[-1]
  x = jnp.asarray(mask, bool).astype(jnp.float32)
  if length <= 2 * _BLOCK:
    return _triangle(x, length).astype(jnp.int32)
  x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -length % _BLOCK)])
  inside = _triangle(x.reshape(*x.shape[:-1], -1, _BLOCK), _BLOCK)
  whole = inside[..., -1]
  before = _triangle(whole, whole.shape[-1]) - whole
  out = (inside + before[..., None]).reshape(x.shape)[..., :length]
  return out.astype(jnp.int32)


def _triangle(x, length):
  upper = jnp.triu(jnp.ones([length, length], x.dtype))
  return jnp.matmul(x, upper, precision=jax.lax.Precision.HIGHEST)


def divide(numerator, denominator):
  """numerator / denominator, and 0 (with zero gradient) where the denominator is 0."""
  empty = denominator == 0
  safe = jnp.where(empty, jnp.ones_like(denominator), denominator)
  return jnp.where(empty, jnp.zeros_like(numerator / safe), numerator / safe)


def mean(x, mask, axis=None, keepdims=False):
  """Mean over the mask; 0 where it is empty."""
  x = jnp.asarray(x)
  n = count(_mask(x, mask), axis, keepdims, x.dtype)
  return divide(total(x, mask, axis, keepdims), n)


def var(x, mask, axis=None, ddof=1, keepdims=False):
  """Variance over the mask with divisor n - ddof; 0 where n <= ddof."""
  x = jnp.asarray(x)
  n = count(_mask(x, mask), axis, True, x.dtype)
  centred = clean(x, mask) - mean(x, mask, axis, True)
  squares = total(centred * centred, mask, axis, True)
  out = divide(squares, jnp.maximum(n - ddof, 0))
  return out if keepdims else jnp.squeeze(out, axis=axis)


def std(x, mask, axis=None, ddof=1, keepdims=False):
  """Standard deviation over the mask; 0 where n <= ddof. Its gradient at 0 is 0, not NaN."""
  v = var(x, mask, axis, ddof, keepdims)
  flat = v <= 0
  return jnp.where(flat, 0.0, jnp.sqrt(jnp.where(flat, 1.0, v)))


def low(x, mask, axis=None, keepdims=False):
  """Smallest value on the mask; 0 where it is empty."""
  out = jnp.min(clean(x, mask, jnp.inf), axis=axis, keepdims=keepdims)
  return jnp.where(jnp.isposinf(out), 0.0, out)


def high(x, mask, axis=None, keepdims=False):
  """Largest value on the mask; 0 where it is empty."""
  out = jnp.max(clean(x, mask, -jnp.inf), axis=axis, keepdims=keepdims)
  return jnp.where(jnp.isneginf(out), 0.0, out)


def spread_range(x, mask, axis=None, keepdims=False):
  """high - low."""
  return high(x, mask, axis, keepdims) - low(x, mask, axis, keepdims)


def suffix_sum(x, mask, axis=-1):
  """Sum over the mask from each position to the end of the axis, that position included."""
  return jax.lax.cumsum(clean(x, mask), axis=axis % jnp.ndim(x), reverse=True)


def last_index(mask, axis=-1):
  """Index of the last entry on the mask; -1 where it is empty."""
  mask = jnp.asarray(mask, bool)
  axis = axis % mask.ndim
  index = jax.lax.broadcasted_iota(jnp.int32, mask.shape, axis)
  return jnp.max(jnp.where(mask, index, -1), axis=axis)
