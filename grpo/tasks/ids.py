"""State ids of tasks whose states are too many to number: exact fields below, a hash above them.

The fields are read back by a task's potential; the hash tells states apart. With b bits of fields
two of k states share an id with probability about k^2 / 2^(33 - b).
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ['pack', 'unpack']

_FACTORS = np.random.default_rng(0).integers(0, 2**32, 256, np.uint32) | np.uint32(1)


def pack(values: jax.Array, fields: Sequence[tuple[jax.Array, int]]) -> jax.Array:
  """One id of a state, uint32 [].

  Args:
    values: int32 [n], n <= 256: everything that decides the future.
    fields: pairs of (value, bits), each value in 0 to 2^bits - 1 and one of them above 0, so that
      no id is 0.
  """
  x = jnp.sum(values.astype(jnp.uint32) * _FACTORS[:values.shape[0]], dtype=jnp.uint32)
  for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b)):
    x = (x ^ (x >> shift)) * jnp.uint32(factor)
  x = x ^ (x >> 16)
  for value, bits in fields:
    x = (x << bits) | value.astype(jnp.uint32)
  return x


def unpack(state_id: jax.Array, bits: Sequence[int]) -> list[jax.Array]:
  """The fields of an id in the order of `pack`, float32 with the shape of `state_id`."""
  out = []
  for width in reversed(bits):
    out.append((state_id & jnp.uint32(2**width - 1)).astype(jnp.float32))
    state_id = state_id >> width
  return out[::-1]
