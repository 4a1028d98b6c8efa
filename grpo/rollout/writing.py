"""Writing: how a policy samples a stretch of tokens, one by one, for all rows in lock-step.

An action is such a stretch, and so is a summary. A row ends at a stop token of its own or when the
stretch is full; the loop ends with the last row, in any seed.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from grpo import types
from grpo import writes
from grpo.models import base
from grpo.rollout import choose as choices

__all__ = ['Writer', 'plan', 'pieces', 'any_of', 'write']

_BLOCK = 128  # slots of one block of the cache
_MOST = 8     # blocks at most, so that compile time stays bounded


@dataclasses.dataclass(frozen=True)
class Writer:
  """Who writes: a policy that has read the prompts, and how it draws."""
  policy: base.Policy
  params: Any
  prefix: Any
  temperature: Any
  choose: Callable | None  # a truncation of `rollout.choose`, or None
  axis_name: str | None    # of the vmapped axis of seeds


def plan(layout: types.Layout) -> tuple[tuple[int, int, int], ...]:
  """Blocks of the cache of one window: (first turn, end turn, slots).

  Attention reads filled blocks and the open one, not the empty rest. Short windows are one block.
  Notes are part of the first block and of the last.
  """
  count = min(_MOST, layout.slots, -(-layout.slots * layout.turn // _BLOCK))
  size = max(-(-layout.slots // count), layout.carry if layout.segments > 1 else 1)
  edges = [*range(0, layout.slots, size), layout.slots]
  notes = lambda a, b: layout.note * ((a == 0) + (b == layout.slots))
  return tuple((a, b, (b - a) * layout.turn + notes(a, b)) for a, b in zip(edges, edges[1:]))


def pieces(layout: types.Layout) -> tuple[int, ...]:
  """Blocks of the cache inside the one action of a window with one turn."""
  if layout.slots > 1:
    return (layout.action,)
  size = max(_BLOCK, -(-layout.action // _MOST))
  return tuple(min(size, layout.action - low) for low in range(0, layout.action, size))


def any_of(x, axis_name):
  """bool []: whether any is true, in any seed."""
  x = jnp.any(x)
  return x if axis_name is None else jax.lax.pmax(x.astype(jnp.int32), axis_name) > 0


def write(writer: Writer, cache, hidden_PGD, on_PG, uniforms_APG, base_, stops, *, leader_G=None,
          sizes: tuple[int, ...] = ()):
  """Samples up to A tokens of every row. The token sampled last is not read yet.

  Args:
    writer: who writes.
    cache: of the policy.
    hidden_PGD: state before the first token.
    on_PG: rows that write.
    uniforms_APG: a number in [0, 1) for each token.
    base_: slot of the first token behind the prompt.
    stops: int32 [n], tokens that end a stretch.
    leader_G: the sample whose tokens a sample repeats, or None.
    sizes: slots of each block of the cache that the stretch fills; more than one for a long stretch
      alone in its window.

  Returns:
    (cache, last token sampled [P,G], whether it is one [P,G], (tokens, logps, valid) [A,P,G]).
  """
  policy, params, prefix = writer.policy, writer.params, writer.prefix
  A, (_, G) = uniforms_APG.shape[0], on_PG.shape

  def stopped(tokens):
    return jnp.any(tokens[..., None] == stops[None, None], axis=-1)

  def emit(hidden_PGD, uniforms_PG, on_PG):
    tokens, logp = choices.draw(policy.logits(params, hidden_PGD), uniforms_PG, writer.temperature,
                                writer.choose)
    if leader_G is not None:
      tokens, logp = tokens[:, leader_G], logp[:, leader_G]
    return jnp.where(on_PG, tokens, 0), jnp.where(on_PG, logp, 0.0)

  token, logp = emit(hidden_PGD, uniforms_APG[0], on_PG)
  empty = lambda x: writes.put_at(jnp.zeros((A, *x.shape), x.dtype), x, 0)
  going = on_PG & ~stopped(token)
  loop = (jnp.int32(1), any_of(going, writer.axis_name), cache, token, on_PG, going,
          (empty(token), empty(logp), empty(on_PG)))

  def body(loop):
    a, _, cache, token, on, going, record = loop
    hidden, cache = policy.extend(params, prefix, cache, token[..., None], on[..., None],
                                  base_ + a - 1)
    uniforms = jax.lax.dynamic_index_in_dim(uniforms_APG, a, 0, keepdims=False)
    token, logp = emit(hidden[:, :, 0], uniforms, going)
    record = tuple(writes.put_at(x, new, a) for x, new in zip(record, (token, logp, going)))
    on, going = going, going & ~stopped(token)
    return a + 1, any_of(going, writer.axis_name), cache, token, on, going, record

  end = 0
  for i, size in enumerate((sizes or (A,)) if A > 1 else ()):
    end += size
    if i:
      cache = policy.start(params, prefix, G, size, loop[2])
      loop = (*loop[:2], cache, *loop[3:])
    # Slot A - 1 is never read here, so the last piece ends one token earlier.
    limit = min(end + 1, A)
    loop = jax.lax.while_loop(lambda loop, limit=limit: (loop[0] < limit) & loop[1], body, loop)
  _, _, cache, token, on, _, record = loop
  return cache, token, on, record


def note(writer: Writer, cache, on_PG, uniforms_BPG, base_, note_ids, *, leader_G=None):
  """Asks for a summary and samples it: (tokens, logps, valid) [1 + B,P,G].

  The word that asks is read and not sampled: its log-probability is 0. `base_` is its slot.
  """
  opens, closes = note_ids
  ask_PG = jnp.where(on_PG, opens, 0)
  hidden, cache = writer.policy.extend(writer.params, writer.prefix, cache, ask_PG[..., None],
                                       on_PG[..., None], base_)
  *_, written = write(writer, cache, hidden[:, :, 0], on_PG, uniforms_BPG, base_ + 1,
                      jnp.asarray([closes], jnp.int32), leader_G=leader_G)
  asked = ask_PG, jnp.zeros(on_PG.shape), on_PG
  return tuple(jnp.concatenate([x[None], rest]) for x, rest in zip(asked, written))
