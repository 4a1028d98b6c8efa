"""Writes into a part of an array that stay writes when they are mapped over seeds.

`jax.vmap` turns a dynamic update into a scatter, also where all runs write at the same place. A
compiler must then check bounds and read what was there, and copies the whole array for it: in a
sampler that is the cache of every layer, for every token.
"""

import jax
import jax.numpy as jnp

__all__ = ['put', 'put_at']


@jax.custom_batching.custom_vmap
def _put(buffer, x, starts):
  return jax.lax.dynamic_update_slice(buffer, x, starts)


@_put.def_vmap
def _(size, batched, buffer, x, starts):
  if any(batched[2]):
    axes = jax.tree.map(lambda b: 0 if b else None, batched)
    return jax.vmap(jax.lax.dynamic_update_slice, in_axes=tuple(axes))(buffer, x, starts), True
  if not (batched[0] or batched[1]):
    return _put(buffer, x, starts), False
  wide = lambda a, known: a if known else jnp.broadcast_to(a, (size, *a.shape))
  return _put(wide(buffer, batched[0]), wide(x, batched[1]), (jnp.int32(0), *starts)), True


def put(buffer, x, *starts):
  """`buffer` with `x` written at `starts`, as `jax.lax.dynamic_update_slice`.

  Args:
    buffer: array of any rank.
    x: array of that rank, no larger on any axis.
    *starts: an integer for each axis, may be traced; clipped so that `x` fits.

  Not to be differentiated.
  """
  starts = tuple(jnp.asarray(i, jnp.int32) for i in starts)
  # Unless it is held together, the write is done twice: once for the reader, once for the next turn
  # of the loop, each in a copy of its own.
  return jax.lax.optimization_barrier(_put(buffer, x.astype(buffer.dtype), starts))


def put_at(buffer, x, index):
  """`buffer` with `x` as its entry `index` of the first axis."""
  return put(buffer, x[None], index, *(0 for _ in x.shape))
