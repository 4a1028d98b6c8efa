"""Moving from one context window to the next.

When a window is full, the policy keeps the prompt and the last `carry` turns; the next window
starts with that copy. `forget` of these turns are lost, the oldest first: a number that may be
traced, so what a compaction loses is a knob, while windows keep their shape. The copy is read again
by the model, at new positions, and is off the mask: those tokens were trained in the window where
they were sampled.
"""

import jax.numpy as jnp

__all__ = ['carried', 'window', 'global_turn']


def carried(tokens_PGW, valid_PGW, alive_PG, layout, forget=0):
  """Last `carry` turns of a window as the first of the next: (tokens, valid) [P,G,carry*turn].

  `W` are the slots behind the prompt. Rows whose episode is over carry nothing.
  """
  low = tokens_PGW.shape[-1] - layout.carry * layout.turn
  kept = jnp.arange(layout.carry * layout.turn) // max(layout.turn, 1) >= forget
  valid = valid_PGW[..., low:] & alive_PG[..., None] & kept[None, None]
  return jnp.where(valid, tokens_PGW[..., low:], 0), valid


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
