"""Named random streams.

Every random number of a run comes from `stream(root, name, *indices)`: the root key, folded with
the hash of a name and then with each index. A stream is a pure function of (seed, name, step,
prompt, sample, ...) with global indices, so the number of devices, workers, micro-batches or
restarts changes nothing, and no key has to be stored, split or carried.
"""

import zlib

import jax
import jax.numpy as jnp

__all__ = ['root', 'stream', 'grid']


def root(seed: int) -> jax.Array:
  """Root key of a run."""
  return jax.random.key(seed)


def stream(key: jax.Array, name: str, *indices) -> jax.Array:
  """Key of one named stream.

  Args:
    key: root key, scalar.
    name: what the numbers are for, such as 'sample' or 'task'. Names are hashed (CRC-32).
    *indices: integers, scalars of Python or of JAX: step, prompt, sample, ...

  Returns:
    A scalar key.
  """
  key = jax.random.fold_in(key, zlib.crc32(name.encode()))
  for index in indices:
    key = jax.random.fold_in(key, index)
  return key


def grid(key: jax.Array, *sizes: int) -> jax.Array:
  """Keys of shape `sizes`: entry [i, j, ...] is `key` folded with i, then with j, ..."""
  if not sizes:
    return key
  keys_N = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(sizes[0]))
  return jax.vmap(lambda k: grid(k, *sizes[1:]))(keys_N)
