"""A policy and a critic that are tables, for exact tests and small exact studies.

Both see two things only: how many real tokens came so far, and the last of them. Logits are the row
table[count - 1, last token], so every probability can be set by hand and every gradient is that of
one softmax. The hidden state is the row of logits itself.
"""

import jax
import jax.numpy as jnp

from grpo import types
from grpo.models import base

__all__ = ['policy', 'critic']


@types.pytree
class Prefix:
  """What is remembered of a prompt."""
  count: jax.Array  # int32 [P], real tokens
  last: jax.Array   # f32 [P,V], logits after the prompt


@types.pytree
class Cache:
  """Real tokens of each row so far."""
  count: jax.Array  # int32 [P,N]


def _look(table, tokens, count):
  """table[count - 1, token]; counts past the end of the table read its last row."""
  place = jnp.clip(count - 1, 0, table.shape[0] - 1)
  return table[place, tokens]


def policy(vocab: int, length: int, *, scale: float = 0.0) -> base.Policy:
  """Table of logits [length, vocab, vocab], normal with standard deviation `scale` at the start.

  Exact in the sense that pads are skipped: a state at a pad is that of no token and is never used.
  flops: 0, a look-up multiplies nothing.
  """

  def init(key):
    return {'table': scale * jax.random.normal(key, (length, vocab, vocab), jnp.float32)}

  def prefill(params, tokens_PL, valid_PL):
    count_P = jnp.sum(valid_PL, axis=1, dtype=jnp.int32)
    return Prefix(count_P, _look(params['table'], tokens_PL[:, -1], count_P))

  def forward(params, prefix, tokens_PNW, valid_PNW):
    count = jnp.cumsum(valid_PNW, axis=-1, dtype=jnp.int32)
    if prefix is not None:
      count = prefix.count[:, None, None] + count
    return _look(params['table'], tokens_PNW, count)

  def start(params, prefix, rows, length, cache=None):
    del params, length
    empty = jnp.zeros((prefix.count.shape[0], rows), jnp.int32)
    return Cache(empty) if cache is None else cache

  def extend(params, prefix, cache, tokens_PNW, valid_PNW, index):
    del index
    count = cache.count[..., None] + jnp.cumsum(valid_PNW, axis=-1, dtype=jnp.int32)
    hidden = _look(params['table'], tokens_PNW, prefix.count[:, None, None] + count)
    return hidden, Cache(count[..., -1])

  return base.Policy(init=init, prefill=prefill, forward=forward, start=start, extend=extend,
                     logits=lambda params, hidden: hidden.astype(jnp.float32), vocab=vocab,
                     flops=lambda prompt_tokens, row_tokens, context: 0.0)


def critic(vocab: int, length: int) -> base.Critic:
  """Table of values [length, vocab], 0 at the start. `graft` has nothing to take from a policy."""

  def init(key):
    del key
    return {'table': jnp.zeros((length, vocab), jnp.float32)}

  def states(params, prompt_PL, valid_PL, tokens_PNW, valid_PNW):
    count = jnp.cumsum(valid_PNW, axis=-1, dtype=jnp.int32)
    before = jnp.zeros((*tokens_PNW.shape[:2], 1), jnp.float32)
    if prompt_PL is not None:
      count_P = jnp.sum(valid_PL, axis=1, dtype=jnp.int32)
      count = count_P[:, None, None] + count
      first_P = _look(params['table'], prompt_PL[:, -1], count_P)
      before = jnp.broadcast_to(first_P[:, None, None], before.shape)
    return jnp.concatenate([before, _look(params['table'], tokens_PNW, count)], axis=-1)

  return base.Critic(init=init, graft=lambda params, policy_params: params, states=states,
                     flops=lambda prompt_tokens, row_tokens, context: 0.0)
