"""Attention over parts: one softmax over keys that live in several arrays.

A row attends to the prompt of its group, which is stored once and never copied per row, and to its
own tokens. Each source of keys is a `Part`; scores of the parts share one maximum and one divisor,
so the result equals attention over the concatenated keys.

Axes besides those of `grpo.types`: W positions of a row, J keys, H key heads, R query heads per key
head, D width of a head. Queries are [P,H,N,R,W,D]. Stored keys are [..,D,J]: position last is the
layout that a product with one query per row reads fastest.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from grpo import masked
from grpo.models import arch

__all__ = ['Part', 'shared', 'own', 'stored', 'within', 'attend', 'near', 'causal', 'rotate',
           'angles', 'positions']

_HIDDEN = -1e30  # finite: a query that sees nothing (a pad) must not turn into NaN
_BLOCK = 128     # queries per causal block
_MOST = 16       # causal blocks of one row at most, so that compile time stays bounded


class Part(NamedTuple):
  """Keys and values of one source, and which query may see which key."""
  keys: jax.Array
  values: jax.Array
  visible: jax.Array  # bool, broadcastable to scores [P,H,N,R,W,J]
  score: str          # einsum of queries and keys
  mix: str            # einsum of weights and values


def shared(keys_PHDJ, values_PHJD, valid_PJ) -> Part:
  """The prompt: one copy for all rows of a group."""
  visible = valid_PJ[:, None, None, None, None, :]
  return Part(keys_PHDJ, values_PHJD, visible, 'phnrwd,phdj->phnrwj', 'phnrwj,phjd->phnrwd')


def own(keys_PHNJD, values_PHNJD, visible_PNWJ) -> Part:
  """Keys of the row itself, fresh from their projection."""
  visible = visible_PNWJ[:, None, :, None]
  return Part(keys_PHNJD, values_PHNJD, visible, 'phnrwd,phnjd->phnrwj', 'phnrwj,phnjd->phnrwd')


def stored(keys_PHNDJ, values_PHNJD, visible_PNWJ) -> Part:
  """Keys of the row itself, from a cache."""
  visible = visible_PNWJ[:, None, :, None]
  return Part(keys_PHNDJ, values_PHNJD, visible, 'phnrwd,phndj->phnrwj', 'phnrwj,phnjd->phnrwd')


def within(part: Part, queries_PNW, keys_PNJ, window: int) -> Part:
  """The same keys, of which only those are seen that are `near` the query."""
  seen_PNWJ = near(queries_PNW, keys_PNJ, window)
  return part._replace(visible=part.visible & seen_PNWJ[:, None, :, None])


def attend(queries, parts):
  """softmax(q k^T / sqrt(D)) v over the keys of all parts. Scores and softmax are float32."""
  queries = queries * jnp.asarray(queries.shape[-1] ** -0.5, queries.dtype)
  scores = [
      jnp.where(part.visible,
                jnp.einsum(part.score, queries, part.keys, preferred_element_type=jnp.float32),
                _HIDDEN)
      for part in parts]
  peak = scores[0].max(-1, keepdims=True)
  for score in scores[1:]:
    peak = jnp.maximum(peak, score.max(-1, keepdims=True))
  peak = jax.lax.stop_gradient(peak)
  divisor, mixed = 0.0, 0.0
  for part, score in zip(parts, scores, strict=True):
    weights = jnp.exp(score - peak)
    divisor += weights.sum(-1, keepdims=True)
    mixed += jnp.einsum(part.mix, weights.astype(part.values.dtype), part.values,
                        preferred_element_type=jnp.float32)
  return (mixed / divisor).astype(queries.dtype)


def near(queries_PNW, keys_PNJ, window: int):
  """Which keys are among the last `window` places up to a query, itself included: bool [P,N,W,J].

  Arguments are places of tokens, as `positions` counts them.
  """
  return queries_PNW[..., :, None] - keys_PNJ[..., None, :] < window


def causal(queries, keys_PHNWD, values_PHNWD, valid_PNW, prompt: Part | None, reach=None):
  """Attention of whole rows: each position sees the prompt, itself and the positions before it.

  With a `reach`, (window, places of the row [P,N,W], of the prompt [P,1,J] or None), only those
  that are `near`.

  Long rows go in blocks of queries, each with the keys up to its end only: half the work of the
  full square. The weights of a block are computed again in the backward pass, which keeps memory
  linear in the length of the row.
  """
  width = keys_PHNWD.shape[3]
  size = max(_BLOCK, -(-width // _MOST))

  def block(queries, keys, values, valid_PNJ, prompt, places):
    queries_W, keys_J = queries.shape[4], keys.shape[3]
    order_WJ = jnp.arange(keys_J)[None, :] <= (jnp.arange(queries_W) + keys_J - queries_W)[:, None]
    visible_PNWJ = order_WJ[None, None] & valid_PNJ[:, :, None, :]
    if places is not None:
      visible_PNWJ &= near(places[..., -queries_W:], places, reach[0])
    parts = [own(keys, values, visible_PNWJ)]
    if prompt is not None:
      part = shared(*prompt)
      if places is not None:
        part = within(part, places[..., -queries_W:], reach[2], reach[0])
      parts.insert(0, part)
    return attend(queries, parts)

  prompt = None if prompt is None else (
      prompt.keys, prompt.values, prompt.visible[:, 0, 0, 0, 0, :])
  places = None if reach is None else reach[1]
  if width <= size:
    return block(queries, keys_PHNWD, values_PHNWD, valid_PNW, prompt, places)
  block = jax.checkpoint(block)
  out = []
  for low in range(0, width, size):
    high = min(low + size, width)
    out.append(block(queries[..., low:high, :], keys_PHNWD[..., :high, :],
                     values_PHNWD[..., :high, :], valid_PNW[..., :high], prompt,
                     None if places is None else places[..., :high]))
  return jnp.concatenate(out, axis=4)


def positions(valid_PNW, before_PN):
  """Place of each token among the valid ones: pads take no place. int32 [P,N,W]."""
  count_PNW = masked.running_count(valid_PNW)
  return jnp.maximum(before_PN[..., None] + count_PNW - 1, 0)


def angles(positions_PNW, width: int, theta: float, limit: int, scaling: tuple = ()):
  """(cos, sin) f32 [P,1,N,1,W,width/2] of rotary embedding. Su et al. 2021, arXiv:2104.09864.

  `scaling` is that of `arch.rates`.

  They are read from a table of the first `limit` positions. Computed in place, a compiler would
  fold sine and cosine into every use, for every head, layer and pass again: on a CPU that was a
  good part of a small model's time.
  """
  rates, factor = arch.rates(width, theta, scaling)
  turns = np.arange(limit)[:, None] * rates
  pick = lambda table: jnp.take(jnp.asarray(table, jnp.float32), positions_PNW, axis=0,
                                mode='clip')[:, None, :, None]
  return pick(factor * np.cos(turns)), pick(factor * np.sin(turns))


def rotate(x, cos_sin):
  """Rotates the pairs (i, i + D/2) of the last axis, in float32."""
  cos, sin = cos_sin
  first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
  return turned.astype(x.dtype)
