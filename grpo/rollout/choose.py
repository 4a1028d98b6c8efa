"""Drawing a token from logits, and the truncations that evaluation may ask for.

A truncation maps logits [..., V] to logits with -inf for the tokens it drops. What is recorded is
then the log-probability under the truncated distribution, which is honest but is not what a trainer
recomputes: a step trains on what was sampled without any, and only plays baselines with one.
"""

import math

import jax
import jax.numpy as jnp

from grpo.models import scoring

__all__ = ['draw', 'greedy', 'top_k', 'top_p']

_BELOW_ONE = 1 - 2 ** -23  # keeps uniform * total below total after rounding


def draw(logits, uniforms, temperature, choose=None):
  """Token and its log-probability by inversion of the distribution function.

  One uniform number a row instead of one a token: the token is the first whose cumulative
  probability exceeds it. A token of probability 0 is never drawn.

  Args:
    logits: f32 [..., V].
    uniforms: f32 [...] in [0, 1).
    temperature: divides the logits.
    choose: a truncation, or None.

  Returns:
    (tokens int32 [...], logp f32 [...]), logp in nats under the distribution drawn from.
  """
  if choose is not None:
    logits, temperature = choose(logits.astype(jnp.float32) / temperature), 1.0
  scaled = logits.astype(jnp.float32) / temperature
  weights = jnp.exp(scaled - scaled.max(axis=-1, keepdims=True))
  # Two levels, a block of tokens and a token of the block: sums of the whole vocabulary are slow.
  size = 2 ** math.ceil(math.log2(weights.shape[-1]) / 2)
  pad = [(0, 0)] * (weights.ndim - 1) + [(0, -weights.shape[-1] % size)]
  weights = jnp.pad(weights, pad).reshape(*weights.shape[:-1], -1, size)
  totals = jnp.cumsum(weights.sum(axis=-1), axis=-1)
  level = jnp.minimum(uniforms, _BELOW_ONE)[..., None] * totals[..., -1:]
  block = jnp.sum(totals <= level, axis=-1, keepdims=True, dtype=jnp.int32)
  before = jnp.take_along_axis(totals, jnp.maximum(block - 1, 0), axis=-1)
  level = level - jnp.where(block > 0, before, 0.0)
  inside = jnp.take_along_axis(weights, block[..., None], axis=-2)[..., 0, :]
  inside = jnp.cumsum(inside, axis=-1)
  level = jnp.minimum(level, inside[..., -1:] * _BELOW_ONE)
  tokens = block[..., 0] * size + jnp.sum(inside <= level, axis=-1, dtype=jnp.int32)
  return tokens, scoring.token_logp(logits, tokens, temperature)


def greedy(logits):
  """Keeps the largest logit only (the first of equals). For evaluation."""
  vocab = jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1)
  return jnp.where(vocab == jnp.argmax(logits, axis=-1)[..., None], logits, -jnp.inf)


def top_k(k: int):
  """Keeps the k largest logits. For evaluation."""
  def keep(logits):
    lowest = jax.lax.top_k(logits, min(k, logits.shape[-1]))[0][..., -1:]
    return jnp.where(logits >= lowest, logits, -jnp.inf)
  return keep


def top_p(p: float):
  """Keeps the fewest tokens whose probability adds up to at least p. For evaluation."""
  def keep(logits):
    ordered = jnp.sort(logits, axis=-1, descending=True)
    weights = jax.nn.softmax(ordered, axis=-1)
    before = jnp.cumsum(weights, axis=-1) - weights
    lowest = jnp.min(jnp.where(before < p, ordered, jnp.inf), axis=-1, keepdims=True)
    return jnp.where(logits >= lowest, logits, -jnp.inf)
  return keep
