"""Moving from one context window to the next.

When a window is full, the policy keeps the prompt and the last `carry` turns; the next window
starts with that copy. `forget` of these turns are lost, the oldest first: a number that may be
traced, so what a compaction loses is a knob, while windows keep their shape. The copy is read again
by the model, at new positions, and is off the mask: those tokens were trained in the window where
they were sampled.

With `layout.summary` above 0 the policy also writes a note behind the last turn of a full window,
and the copy of the note stands before the turns that are carried. A note is the word `summary`,
which the sampler writes and nobody is trained on, and then up to `layout.summary` tokens of the
policy, the last of them `end` unless it ran out of room. It belongs to the turn that comes next, as
if the policy thought before it acted: it earns what that turn and later ones earn, and nothing of
what was earned before it was written.
"""

import dataclasses

import jax.numpy as jnp

from grpo.tasks import base

__all__ = ['WORDS', 'speaks', 'carried', 'window', 'global_turn', 'expert_note', 'places']

WORDS = ('summary', 'end')  # that open a note, and close it


def speaks(task: base.Task) -> base.Task:
  """The task with the words of a note behind its own, so that no token changes its meaning."""
  low = len(task.vocab)
  return dataclasses.replace(task, vocab=task.vocab + WORDS, note_ids=(low, low + 1))


def carried(tokens_PGW, valid_PGW, alive_PG, layout, forget=0):
  """What the next window starts with: (tokens, valid) [P,G,note + carry*turn].

  `W` are the slots behind the prompt. The note that was written at the end comes first, then the
  last `carry` turns. Rows whose episode is over carry nothing.
  """
  high = tokens_PGW.shape[-1] - layout.note
  low = high - layout.carry * layout.turn
  kept = jnp.arange(layout.carry * layout.turn) // max(layout.turn, 1) >= forget
  valid = valid_PGW[..., low:high] & alive_PG[..., None] & kept[None, None]
  tokens = jnp.where(valid, tokens_PGW[..., low:high], 0)
  if not layout.note:
    return tokens, valid
  join = lambda x, turns: jnp.concatenate([x[..., high:], turns], axis=-1)
  return join(tokens_PGW, tokens), join(valid_PGW, valid)


def window(prompt_PL, valid_PL, tokens_PGW, valid_PGW, used_PG):
  """A whole window, prompt included: (tokens, valid) [P,G,L]. Empty where it is not used."""
  shape = (*tokens_PGW.shape[:2], prompt_PL.shape[-1])
  used = used_PG[..., None]
  lead = lambda x: jnp.broadcast_to(x[:, None], shape)
  valid = jnp.concatenate([lead(valid_PL), valid_PGW], axis=-1) & used
  tokens = jnp.concatenate([lead(prompt_PL), tokens_PGW], axis=-1)
  return jnp.where(valid, tokens, 0), valid


def global_turn(segment, slot, layout):
  """Turn of the episode that slot `slot` of window `segment` holds; both may be traced.

  Window 0 holds turns 0, 1, ...; slot `carry` of window s holds turn carry + s * turns.
  """
  return segment * layout.turns + slot


def places(layout):
  """Where tokens of summaries are written, bool [1,1,1,L]."""
  place = jnp.arange(layout.length)[None, None, None]
  return place >= layout.length - layout.summary


def expert_note(words, real, layout, note_ids):
  """The note of the scripted expert: (tokens, valid) [note], of words [n] of which some are real.

  As many of the words as fit, in their order, and the word that closes it.
  """
  width, (opens, closes) = layout.note, note_ids
  place = jnp.cumsum(real)  # of each word, behind the first one
  count = jnp.minimum(place[-1], layout.summary - 1)
  here = (place[None] == jnp.arange(width)[:, None]) & real[None]
  tokens = jnp.sum(jnp.where(here, words[None], 0), axis=1)
  at = jnp.arange(width)
  tokens = jnp.where(at == 0, opens, jnp.where(at == count + 1, closes, tokens))
  valid = at <= count + 1
  return jnp.where(valid, tokens, 0), valid
