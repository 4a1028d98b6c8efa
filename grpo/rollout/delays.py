"""How long rollouts take to play: the slot `sample.delay` of the delay line (rollout/staleness.py).

A law maps normal draws and the tokens of each rollout to durations, in any unit of time: only their
order and their sums matter. A group is done with its slowest member; a group of one leaves at once.
"""

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ['constant', 'log_normal', 'by_length']


def constant(normal_PG: jax.Array, tokens_PG: jax.Array) -> jax.Array:
  """All take the same time."""
  del tokens_PG
  return jnp.ones_like(normal_PG)


def log_normal(normal_PG: jax.Array, tokens_PG: jax.Array, *, sigma: float) -> jax.Array:
  """exp(sigma z - sigma^2 / 2): mean 1, `sigma` the spread of the logarithm."""
  del tokens_PG
  return jnp.exp(sigma * normal_PG - sigma**2 / 2)


def by_length(normal_PG: jax.Array, tokens_PG: jax.Array, *, sigma: float) -> jax.Array:
  """Sampled tokens times `log_normal`: long rollouts are late, so that of those that began together
  the short ones are trained on first, and a limit of staleness drops the long ones."""
  return jnp.maximum(tokens_PG, 1) * log_normal(normal_PG, tokens_PG, sigma=sigma)


def slowest(group: int, sigma: float) -> float:
  """E[max of G log-normal durations] / E[one], by quadrature: 3.1 for G = 8, sigma = 1."""
  if group == 1 or sigma == 0:
    return 1.0
  z = np.linspace(-12.0, 12.0 + 2 * sigma, 20_001)
  density = np.exp(-z**2 / 2) / np.sqrt(2 * np.pi)
  below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(z))])
  weight = group * below**(group - 1) * density * np.exp(sigma * z - sigma**2 / 2)
  return float(np.sum((weight[1:] + weight[:-1]) / 2 * np.diff(z)))
