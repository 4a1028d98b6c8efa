"""Named random streams.

Every random number of a run comes from `stream(root, name, *indices)`: the root key, folded with
the hash of a name and with each index, two words a fold. A stream is a pure function of (seed,
name, step, prompt, sample, ...) with global indices, so the number of devices, workers,
micro-batches or restarts changes nothing, and no key has to be stored, split or carried.
"""

import zlib

import jax
from jax.extend import random as jex_random
import jax.numpy as jnp

__all__ = ['root', 'stream', 'grid']

_END = 0xFFFFFFFF  # fills the last pair; no index reaches it


def root(seed: int) -> jax.Array:
  """Root key of a run."""
  return jax.random.key(seed)


def stream(key: jax.Array, name: str, *indices) -> jax.Array:
  """Key of one named stream.

  The words (CRC-32 of the name, indices...) are taken two at a time, as the 64-bit counter of one
  Threefry-2x32 block (Salmon et al. 2011) whose output is the next key. `jax.random.fold_in` does
  the same with one word and a zero: this takes half as many blocks, to compile and to run.

  Args:
    key: root key, scalar.
    name: what the numbers are for, such as 'sample' or 'task'.
    *indices: integers below 2^32 - 1, scalars of Python or of JAX: step, prompt, sample, ...

  Returns:
    A scalar key.
  """
  words = [jnp.uint32(zlib.crc32(name.encode())), *(jnp.asarray(i).astype(jnp.uint32)
                                                    for i in indices)]
  if len(words) % 2:
    words.append(jnp.uint32(_END))
  data = jax.random.key_data(key)
  for pair in zip(words[::2], words[1::2], strict=True):
    data = jex_random.threefry_2x32(data, jnp.stack(pair))
  return jax.random.wrap_key_data(data, impl='threefry2x32')


def grid(key: jax.Array, *sizes: int) -> jax.Array:
  """Keys of shape `sizes`: entry [i, j, ...] is `key` folded with i, then with j, ..."""
  if not sizes:
    return key
  keys_N = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(sizes[0]))
  return jax.vmap(lambda k: grid(k, *sizes[1:]))(keys_N)
