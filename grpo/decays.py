"""How a learning rate falls after its warm-up: the slot `train.decay`.

A function takes the rate that warm-up leaves and the number of updates that an optimiser has made,
and gives the rate of the next one. The fall begins at update `start`, by default the end of the
warm-up, and is over at update `length`, by default the last one of the run, of the policy's
optimiser or of the critic's. Updates that are skipped (those of a policy while only its critic
learns, or while a line of rollouts fills) are not counted.
"""

import math

import jax
import jax.numpy as jnp

__all__ = ['constant', 'linear', 'cosine']


def constant(rate: jax.Array, count: jax.Array) -> jax.Array:
  """The rate stays."""
  del count
  return rate


def linear(rate: jax.Array, count: jax.Array, *, length: int, start: int,
           floor: float = 0.0) -> jax.Array:
  """rate (1 - (1 - floor) p): a straight line from the rate down to `floor` times it.

  p = (count - start) / (length - start), held within 0 and 1. Update `start` has the whole
  rate; `floor` holds from update `length` on.
  """
  return rate * (1.0 - (1.0 - floor) * _progress(count, length, start))


def cosine(rate: jax.Array, count: jax.Array, *, length: int, start: int,
           floor: float = 0.1) -> jax.Array:
  """rate (floor + (1 - floor) (1 + cos(pi p)) / 2), with p of `linear`: half a wave.

  Loshchilov & Hutter 2016, arXiv:1608.03983, equation 5, without restarts.
  """
  wave = 0.5 * (1.0 + jnp.cos(math.pi * _progress(count, length, start)))
  return rate * (floor + (1.0 - floor) * wave)


def _progress(count, length, start):
  """Share of the fall that is done, in [0, 1]."""
  return jnp.clip((count - start) / (length - start), 0.0, 1.0)
