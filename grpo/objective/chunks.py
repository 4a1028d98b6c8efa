"""Chunks, the units that get credit: the slot `chunk`, and reductions between tokens and chunks.

A chunk function maps (mask_PGT, turn_PGT, segment_PGT) to (chunk_PGT, K): the chunk of each trained
token, int32, -1 off the mask, and the number K of chunks, a Python int. Along a row the chunk of
trained tokens never decreases. A row need not use every chunk; one without tokens is invalid and
every recursion steps over it.

The reductions are sums by segment and gathers inside a row: O(T) work, no [T, K] array, and
nothing crosses the prompt axis, so they stay local when prompts are split over devices.
"""

import jax
import jax.numpy as jnp

from grpo import masked

__all__ = ['whole', 'turn', 'turns', 'fixed', 'segment', 'token']


def _on(mask_PGT, chunk_PGT):
  return jnp.where(mask_PGT, chunk_PGT, -1).astype(jnp.int32)


def whole(mask_PGT: jax.Array, turn_PGT: jax.Array,
          segment_PGT: jax.Array) -> tuple[jax.Array, int]:
  """The whole trajectory is one chunk: outcome credit, as in GRPO."""
  del turn_PGT, segment_PGT
  return _on(mask_PGT, 0), 1


def turn(mask_PGT: jax.Array, turn_PGT: jax.Array, segment_PGT: jax.Array, *,
         count: int) -> tuple[jax.Array, int]:
  """One chunk a turn. `count` is the largest number of turns; later turns would join the last."""
  del segment_PGT
  return _on(mask_PGT, jnp.minimum(turn_PGT, count - 1)), count


def turns(mask_PGT: jax.Array, turn_PGT: jax.Array, segment_PGT: jax.Array, *, length: int,
          count: int) -> tuple[jax.Array, int]:
  """Blocks of `length` turns. Turns past `count` blocks join the last one."""
  del segment_PGT
  return _on(mask_PGT, jnp.minimum(turn_PGT // length, count - 1)), count


def fixed(mask_PGT: jax.Array, turn_PGT: jax.Array, segment_PGT: jax.Array, *, length: int,
          count: int) -> tuple[jax.Array, int]:
  """Blocks of `length` trained tokens. Tokens past `count` blocks join the last one."""
  del turn_PGT, segment_PGT
  index_PGT = masked.running_count(mask_PGT) - 1
  return _on(mask_PGT, jnp.minimum(index_PGT // length, count - 1)), count


def segment(mask_PGT: jax.Array, turn_PGT: jax.Array, segment_PGT: jax.Array, *,
            count: int) -> tuple[jax.Array, int]:
  """One chunk a context window, so that credit crosses compactions. `count` is S."""
  del turn_PGT
  return _on(mask_PGT, jnp.minimum(segment_PGT, count - 1)), count


def token(mask_PGT: jax.Array, turn_PGT: jax.Array,
          segment_PGT: jax.Array) -> tuple[jax.Array, int]:
  """Each trained token is a chunk; K = T and the chunk is the position in the stream."""
  del turn_PGT, segment_PGT
  index_PGT = jax.lax.broadcasted_iota(jnp.int32, mask_PGT.shape, 2)
  return _on(mask_PGT, index_PGT), mask_PGT.shape[2]


def total(x_PGT: jax.Array, chunk_PGT: jax.Array, count: int) -> jax.Array:
  """Sum of `x` over the tokens of each chunk, [P,G,K]; 0 for a chunk without tokens."""
  x_PGT = masked.clean(x_PGT, chunk_PGT >= 0)
  to_PGT = jnp.where(chunk_PGT < 0, count, chunk_PGT)  # a negative index would wrap around

  def add(x_T, to_T):
    return jax.ops.segment_sum(x_T, to_T, num_segments=count)

  return jax.vmap(jax.vmap(add))(x_PGT, to_PGT)


def first_mask(chunk_PGT: jax.Array) -> jax.Array:
  """True on the first token of every chunk."""
  seen_PGT = jax.lax.cummax(chunk_PGT, axis=2)
  before_PGT = jnp.concatenate([jnp.full_like(seen_PGT[..., :1], -1), seen_PGT[..., :-1]], axis=2)
  return chunk_PGT > before_PGT


def first(x_PGT: jax.Array, chunk_PGT: jax.Array, count: int) -> jax.Array:
  """Value of `x` on the first token of each chunk, [P,G,K]; 0 for a chunk without tokens."""
  return total(x_PGT, jnp.where(first_mask(chunk_PGT), chunk_PGT, -1), count)


def tokens(chunk_PGT: jax.Array, count: int) -> jax.Array:
  """Number of trained tokens of each chunk, int32 [P,G,K]."""
  return total((chunk_PGT >= 0).astype(jnp.int32), chunk_PGT, count)


def spread(x_PGK: jax.Array, chunk_PGT: jax.Array) -> jax.Array:
  """Value of its chunk on every trained token, [P,G,T]; 0 off the mask."""
  x_PGT = jnp.take_along_axis(x_PGK, jnp.maximum(chunk_PGT, 0), axis=2)
  return masked.clean(x_PGT, chunk_PGT >= 0)
