"""Tier 4: a corridor of keys and doors. 2 to 200 steps, like the coin and key games of text worlds.

One key lies in the start room and one in each of the rooms west of it; east of it are `doors`
locked doors in a row, and behind the last one the treasure. Each door has a colour and opens to the
key of that colour alone, which is used up. A hand holds one key: `take` swaps it with what lies in
the room. The colour of a door is seen only in the room before it, so it has to be kept in mind on
the way to the key and back. An observation is: what happened, the key in the room, the key in hand,
the door to the east; `none` where there is none, `open` for an open door.

    opened none none blue      going east opened a door; the next one is blue

Actions: `east` (opens the door if the key fits), `west`, `take`. With D doors and no distractors
the expert needs 2 D^2 turns: 2, 8, 18, 32, 50, ..., 200 for 10 doors. It searches nothing: keys lie
in one direction, so who walks west until the key is seen walks as far as the expert.

The episode ends in the last room, with success. A time limit truncates it after
ceil((2 - hurry) * turns the expert needs) turns.

Knobs: `doors` (1 to max_doors), `distractors` (keys without a door, 0 to max_distractors; they lie
among the others, so ways are longer), `brittle` (probability that a wrong key breaks in a lock: if
it was the key of a later door, the treasure is out of reach and nothing says so), `hurry` (0: twice
the time the expert needs, 1: exactly that), `subgoal` (share of the reward paid door by door).

Potential: share of the doors that are open, a half door for holding the key of the next one.

Colours and places are shuffled. Two doors without distractors have 4 instances: that is a table,
and no split is made; train and held-out episodes differ in the stream only. With two doors or more
and room for C = 3 keys or more (36 instances of 2 doors and a distractor, 13 million million of 10
doors) there is a knob `heldout`: instances are held out whose second door has the colour that
follows that of the first one in the circle of C colours, one in C - 1. One door is never split.

The expert's ceiling is 1 for every knob. Floors, from 20,000 episodes of uniform tokens: 0.022 for
one door, 0.004 for one door with hurry = 1, and 0.000 for two; there a return of 0.04 with subgoal
= 1. Doing nothing, and any one action again and again, earn 0 with every knob. With two doors a
walk without a look, `take east west west take east` and on to the east, solves exactly the half of
the instances whose first key lies in the start room: 0.50.
"""

import dataclasses

import jax
import jax.numpy as jnp

from grpo import types
from grpo.tasks import base
from grpo.tasks import ids

__all__ = ['make', 'State']

COLOURS = ('red', 'blue', 'green', 'white', 'black', 'pink', 'grey', 'brown', 'orange', 'yellow',
           'purple', 'silver', 'gold', 'copper', 'olive', 'navy')
EAST, WEST, TAKE = 1, 2, 3
EVENTS = ('start', 'moved', 'took', 'opened', 'locked', 'broke', 'nothing')
START, MOVED, TOOK, OPENED, LOCKED, BROKE, NOTHING = range(4, 11)
OPEN, NONE = 11, 12


@types.pytree
class State:
  """One episode. A colour is 1 to C; 0 is no key."""
  x: jax.Array       # int32 []; 0 is the start, -r the r-th room to the west, i behind door i
  opened: jax.Array  # int32 []; doors that are open
  hand: jax.Array    # int32 []
  floor: jax.Array   # int32 [C]; key in the room r to the west
  doors: jax.Array   # int32 [D]; colours, 0 beyond the last door
  rooms: jax.Array   # int32 []; rooms to the west, the start included
  limit: jax.Array   # int32 []; turns of the time limit
  turn: jax.Array    # int32 []
  noise: jax.Array   # uint32 [2]; seed of the episode's noise


def make(*, max_doors: int = 2, max_distractors: int = 0) -> base.Task:
  """Up to `max_doors` doors (default of `doors`) and `max_distractors` keys that open nothing."""
  D, C = max_doors, max_doors + max_distractors
  if D < 1 or max_distractors < 0 or C > len(COLOURS):
    raise ValueError('keychain: max_doors must be at least 1, max_distractors at least 0, and both '
                     f'together at most {len(COLOURS)}, got {max_doors} and {max_distractors}')
  vocab = ('_', 'east', 'west', 'take', *EVENTS, 'open', 'none', *COLOURS[:C])
  split, places = D > 1 and C > 2, jnp.arange(C)
  most = D * (D - 1) + 2 * D + 2 * sum(range(C - D, C))

  def show(state, event):
    """Tokens [4] of an observation."""
    colour = lambda c: jnp.where(c > 0, NONE + c, NONE)
    here = jnp.sum(jnp.where(places == -state.x, state.floor, 0))
    door = jnp.sum(jnp.where(jnp.arange(D) == state.x, state.doors, 0))
    ahead = jnp.where(state.x < state.opened, OPEN, colour(door))
    return jnp.stack([event, colour(here), colour(state.hand), ahead]).astype(jnp.int32)

  def noise_of(key):
    return jax.random.bits(key, (2,), jnp.uint32)

  def reset(key, knobs):
    doors = jnp.clip(jnp.asarray(knobs['doors'], jnp.int32), 1, D)
    extra = jnp.clip(jnp.asarray(knobs['distractors'], jnp.int32), 0, max_distractors)
    hurry = jnp.clip(jnp.asarray(knobs['hurry'], jnp.float32), 0, 1)
    draw = jax.random.uniform(jax.random.fold_in(key, 0), (2, C))
    real = places < doors + extra
    # Ranks of uniform numbers are a shuffle. Key j has a colour and lies in a room; the first ones
    # fit the doors in turn.
    colour = 1 + jnp.sum(draw[0][:, None] > draw[0][None], axis=1)
    low = jnp.where(real, draw[1], 2.0)
    room = jnp.sum(low[:, None] > low[None], axis=1)
    if split:
      # Swapping two colours brings an instance to its side, and keeps each side uniform.
      u = jax.random.uniform(jax.random.fold_in(key, 2))
      away = 2 + jnp.minimum((u * (C - 2)).astype(jnp.int32), C - 3)
      apart = (colour[1] - colour[0]) % C
      apart = jnp.where(jnp.asarray(knobs['heldout'], jnp.float32) > 0, 1,
                        jnp.where(apart == 1, away, apart))
      old, new = colour[1], 1 + (colour[0] - 1 + apart) % C
      colour = jnp.where(colour == old, new, jnp.where(colour == new, old, colour))
    lies = (room[None] == places[:, None]) & real[None]
    floor = jnp.sum(jnp.where(lies, colour[None], 0), axis=1)
    used = places < doors
    need = doors * (doors - 1) + 2 * doors + 2 * jnp.sum(jnp.where(used, room, 0))
    zero = jnp.int32(0)
    state = State(
        x=zero, opened=zero, hand=zero, floor=floor.astype(jnp.int32),
        doors=jnp.where(used, colour, 0)[:D].astype(jnp.int32), rooms=doors + extra,
        limit=jnp.ceil((2 - hurry) * need).astype(jnp.int32), turn=zero,
        noise=noise_of(jax.random.fold_in(key, 1)))
    return state, show(state, jnp.int32(START)), jnp.ones(4, bool)

  def step(state, action, valid, knobs):
    brittle, subgoal = (jnp.asarray(knobs[k], jnp.float32) for k in ('brittle', 'subgoal'))
    noise = jax.random.wrap_key_data(state.noise, impl='threefry2x32')
    draw = jax.random.uniform(jax.random.fold_in(noise, state.turn))
    x, hand, token = state.x, state.hand, jnp.where(valid[0], action[0], 0)
    door = jnp.sum(jnp.where(jnp.arange(D) == x, state.doors, 0))
    at_lock = (token == EAST) & (x == state.opened)
    opens = at_lock & (hand > 0) & (hand == door)
    breaks = at_lock & ~opens & (hand > 0) & (draw < brittle)
    east = opens | ((token == EAST) & (x < state.opened))
    west = (token == WEST) & (-x < state.rooms - 1)
    here = places == -x
    lying = jnp.sum(jnp.where(here, state.floor, 0))
    takes = (token == TAKE) & (x <= 0) & (hand + lying > 0)
    event = jnp.where(opens, OPENED, jnp.where(breaks, BROKE, jnp.where(at_lock, LOCKED, jnp.where(
        takes, TOOK, jnp.where(east | west, MOVED, NOTHING)))))
    after = dataclasses.replace(
        state, x=x + east.astype(jnp.int32) - west.astype(jnp.int32),
        opened=state.opened + opens.astype(jnp.int32),
        hand=jnp.where(opens | breaks, 0, jnp.where(takes, lying, hand)),
        floor=jnp.where(takes & here, hand, state.floor), turn=state.turn + 1)
    count = jnp.sum(state.doors > 0)
    won = after.x == count
    success = won.astype(jnp.float32)
    reward = subgoal * opens.astype(jnp.float32) / count + (1 - subgoal) * success
    return base.Step(after, show(after, event), jnp.ones(4, bool), reward, success, won,
                     ~won & (after.turn >= state.limit))

  def wanted(state):
    """Colour of the next locked door."""
    return jnp.sum(jnp.where(jnp.arange(D) == state.opened, state.doors, 0))

  def state_id(state):
    values = jnp.concatenate([
        state.floor, state.doors,
        jnp.stack([state.x, state.hand, state.rooms, state.limit, state.turn])])
    holds = (state.hand > 0) & (state.hand == wanted(state))
    return ids.pack(values, ((jnp.sum(state.doors > 0), 5), (state.opened, 5), (holds, 1)))

  def potential(state_id, knobs):
    del knobs
    count, opened, holds = ids.unpack(state_id, (5, 5, 1))
    return (opened + 0.5 * holds) / jnp.maximum(count, 1)

  def expert(state, key):
    del key
    colour = wanted(state)
    room = jnp.sum(jnp.where(state.floor == colour, places, 0))
    fetch = jnp.where(state.x == -room, TAKE, jnp.where(state.x < -room, EAST, WEST))
    return jnp.where(state.hand == colour, EAST, fetch)[None].astype(jnp.int32), jnp.ones(1, bool)

  return base.Task(
      vocab=vocab, prompt_len=4, action_len=1, observation_len=4, max_turns=2 * most, stop_ids=(),
      knobs=dict(doors=D, distractors=0, brittle=0.0, hurry=0.0, subgoal=0.0)
      | (dict(heldout=0) if split else {}),
      reset=reset, reseed=lambda state, key: dataclasses.replace(state, noise=noise_of(key)),
      step=step, state_id=state_id, expert=expert, potential=potential, alike=((NONE + 1, C),))
