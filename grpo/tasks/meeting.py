"""Tier 4: settle a meeting across time zones while calendars are read in moving clocks.

N people are free at some hours of the day. Two hours suit everybody, and the goal says which of
them is wanted, the early or the late one. Each of the first `roles` people is busy at hours that
suit all the others, so nobody's answer can be left out. People answer in local hours: UTC plus
their zone (0 to N - 1), plus 1 in daylight-saving time. They are awake for half of the day of T
turns: from z T / (2 N - 2) on, where z is their zone.

Actions, one word: `ask-ann` (if she is awake she sends the hours at which she is free);
`propose-3z` (people who are awake and busy then may object); `book-3z` (sends the invitation for
3:00 UTC and ends the episode; it cannot be unsent); `wait`. Any other word is `wait`. Success is an
invitation for the wanted hour. reward = partial * (share of the people who are free then, if it is
a common hour or not) + (1 - partial) * success, once, when the invitation is sent. A day that ends
without one is cut (`truncated`) and pays nothing.

    prompt       rule rule goal-early ann+1 bob+0 cid+2
    observation  ann 2h 5h 6h - - quiet no-news clock-same
                 who answers and when, what came of the action, news of the goal, and of the clocks
                 (the first six words are left out, as padding, when nobody answers)

Knobs (stressor): `horizon` T (long), `roles` (people whose answer is needed; 1 is easy),
`visibility` v (share of objections to a proposal that are voiced), `delay` (turns until an answer
comes), `drift` d (probability a turn that somebody's clock goes to or from daylight-saving time;
told once), `undo` b (probability that a wrong invitation is declined at once and can be sent
again), `switch` g (probability a turn that the goal changes; told once), `unreliable` e (share of
answers that are an hour late), `rules` (how many of these void the booking when broken: ask
everybody first; ask nobody who sleeps), `partial`, `heldout`. Broken rules are recorded in the
state whether they count or not.

    easy case, 20,000 days         success   reward at partial = 1
      expert                         1.000     1.000
      words (uniform)                0.062     0.248
      actions (uniform)              0.080     0.334
      nothing (`wait`)               0.000     0.000
      repeat (the best word)         0.087     0.339
      blind                          0.163     0.330

Ceiling: the expert, who knows the calendars, asks whom it has to (with a rule in force, everybody)
and waits for answers. Floor: actions. Exploits: to repeat a booking is to stop at once, 1 in H;
`blind` books the first hour of the day for an early goal and the last one for a late goal, 2 in H.
With undo = 1 one can try every hour in turn. A policy of observations alone also solves every easy
day (tests/players.py).
"""

import dataclasses

import jax
import jax.numpy as jnp

from grpo import types
from grpo.tasks import base
from grpo.tasks import scenes

__all__ = ['make', 'State', 'wanted', 'awake', 'NAMES']

NAMES = ('ann', 'bob', 'cid', 'dee')
RULES = ('ask-all', 'no-waking')
EARLY = 0
WAIT, FIRST = 1, 2


@types.pytree
class State:
  """Latent state before an action. N people, H hours."""
  turn: jax.Array     # int32 []
  free: jax.Array     # bool [N, H]; UTC
  zone: jax.Array     # int32 [N]; 0 to N - 1, all different
  summer: jax.Array   # int32 [N]; 1 in daylight-saving time
  common: jax.Array   # int32 [2]; the early and the late hour that suit all
  goal: jax.Array     # int32 []; which of them is wanted
  due: jax.Array      # int32 [N]; turns until an answer comes, 0: none
  asked: jax.Array    # bool [N]
  heard: jax.Array    # bool [N]
  needed: jax.Array   # bool [N]; whom the expert asks: those whose answer counts, by a rule all
  broken: jax.Array   # bool [2]; rules that were broken
  horizon: jax.Array  # int32 []; T
  number: jax.Array   # int32 []; the instance
  noise: jax.Array    # uint32 [2]


def wanted(state):
  """The hour (UTC) that the goal asks for."""
  return state.common[state.goal]


def awake(state):
  """bool [N], who is awake on this turn."""
  spread = 2 * (state.zone.shape[0] - 1)
  start, now = state.zone * state.horizon, state.turn * spread
  return (start <= now) & (now < start + state.horizon * spread // 2)


def make(*, people: int = 3, hours: int = 12, max_turns: int = 8) -> base.Task:
  """A meeting of `people` people (N) within a day of `hours` hours (H).

  Args:
    people: N, 2 to 4.
    hours: H, N + 2 to 24.
    max_turns: longest day, in turns; `horizon` defaults to it and is cut to it.

  Returns:
    The task.
  """
  N, H = people, hours
  if not 2 <= N <= len(NAMES):
    raise ValueError(f'meeting: people must be 2 to {len(NAMES)}, got {N}')
  if not N + 2 <= H <= 24:
    raise ValueError(f'meeting: hours must be {N + 2} to 24 for {N} people, got {H}')
  if max_turns < 1:
    raise ValueError(f'meeting: max_turns must be at least 1, got {max_turns}')
  each, hour_H, shown = jnp.arange(N), jnp.arange(H), N + 2
  ask0, propose0, book0 = FIRST, FIRST + N, FIRST + N + H
  vocab = ['_', 'wait', *(f'ask-{n}' for n in NAMES[:N]), *(f'propose-{h}z' for h in range(H)),
           *(f'book-{h}z' for h in range(H))]
  place = {}
  for name, words in dict(
      who=NAMES[:N], hour=['-', *(f'{h}h' for h in range(H + N))],
      result=['quiet', 'asleep', 'noted', 'objection', 'declined', 'sent'],
      goal=['no-news', 'goal-early', 'goal-late'],
      clock=['clock-same', *(f'{n}-{s}' for n in NAMES[:N] for s in ('winter', 'summer'))],
      zone=[f'{n}+{z}' for n in NAMES[:N] for z in range(N)], rule=['no-rule', *RULES]).items():
    place[name] = len(vocab)
    vocab += words

  def reset(key, knobs):
    number, u, noise = scenes.begin(key, knobs['heldout'], H + N + 1)
    horizon, roles, rules = (scenes.whole(knobs, *bound) for bound in (
        ('horizon', 1, max_turns), ('roles', 1, N), ('rules', 0, 2)))
    # The hours in random order: two common ones, N that one person cannot, the rest is bad for all.
    rank_H, zone = scenes.ranks(u[:H]), scenes.ranks(u[H:H + N])
    owner_H = jnp.where(rank_H - 2 < roles, rank_H - 2, 0)
    shared, most = rank_H < 2, rank_H < N + 2
    free = shared[None] | (most[None] & (owner_H[None] != each[:, None]))
    common = jnp.stack([jnp.min(jnp.where(shared, hour_H, H)),
                        jnp.max(jnp.where(shared, hour_H, 0))])
    goal, no = scenes.pick(u[-1], 2), jnp.zeros(N, bool)
    zero = jnp.zeros(N, jnp.int32)
    state = State(turn=jnp.zeros((), jnp.int32), free=free, zone=zone, summer=zero,
                  common=common.astype(jnp.int32), goal=goal, due=zero, asked=no, heard=no,
                  needed=(each < roles) | (rules > 0), broken=jnp.zeros(2, bool), horizon=horizon,
                  number=number, noise=noise)
    rule = place['rule'] + jnp.where(jnp.arange(2) < rules, 1 + jnp.arange(2), 0)
    prompt = jnp.concatenate([rule, (place['goal'] + 1 + goal)[None],
                              place['zone'] + each * N + zone]).astype(jnp.int32)
    return state, prompt, jnp.ones(prompt.shape, bool)

  def answer(state, who, late):
    """Tokens [1 + N + 2]: a name and the local hours at which that person is free, in order."""
    free_H = jnp.where(late, jnp.roll(state.free[who], 1), state.free[who])
    slot_H = jnp.cumsum(free_H) - 1
    at = free_H[None] & (slot_H[None] == jnp.arange(shown)[:, None])
    local_H = 1 + hour_H + state.zone[who] + state.summer[who]
    hours_N = jnp.max(jnp.where(at, local_H[None], 0), axis=1)
    return jnp.concatenate([(place['who'] + who)[None], place['hour'] + hours_N])

  def step(state, action, valid, knobs):
    visibility, drift, undo, switch, unreliable, partial = (
        jnp.asarray(knobs[k], jnp.float32)
        for k in ('visibility', 'drift', 'undo', 'switch', 'unreliable', 'partial'))
    lag, u = scenes.whole(knobs, 'delay', 0, max_turns), scenes.draws(state.noise, state.turn, 6)
    act = jnp.where(valid[0], action[0], WAIT)
    ask, up = act == ask0 + each, awake(state)
    proposes, books = act - propose0, act - book0
    proposed, booked = ((x >= 0) & (x < H) for x in (proposes, books))
    accepted = ask & up & (state.due == 0)
    due = jnp.where(accepted, 1 + lag, state.due)
    asleep = jnp.any(ask & ~up)
    # One delay for all, and one question a turn: at most one answer comes.
    replies, who = due == 1, jnp.argmax(due == 1)
    busy = up & ~jnp.any(state.free & (hour_H == proposes)[None], axis=1)
    objected = proposed & jnp.any(busy) & (u[1] < visibility)
    free_N = jnp.any(state.free & (hour_H == books)[None], axis=1)
    right = booked & (books == wanted(state))
    declined = booked & ~right & (u[2] < undo)
    asked = state.asked | (ask & up)
    broken = state.broken | jnp.stack([booked & ~jnp.all(asked), asleep])
    flip, shift = u[3] < switch, (u[4] < drift) & (each == scenes.pick(u[5], N))
    goal = jnp.where(flip, 1 - state.goal, state.goal)
    summer = jnp.where(shift, 1 - state.summer, state.summer)
    after = dataclasses.replace(
        state, turn=state.turn + 1, summer=summer, goal=goal, due=jnp.maximum(due - 1, 0),
        asked=asked, heard=state.heard | replies, broken=broken)

    result = jnp.where(asleep, 1, jnp.where(proposed, jnp.where(objected, 3, 2), 0))
    result = jnp.where(booked, jnp.where(declined, 4, 5), result)
    clock = jnp.max(jnp.where(shift, 1 + 2 * each + summer, 0))
    news = jnp.stack([place['result'] + result, place['goal'] + jnp.where(flip, 1 + goal, 0),
                      place['clock'] + clock])
    seen = jnp.concatenate([jnp.full(1 + shown, jnp.any(replies)), jnp.ones(3, bool)])
    spoken = jnp.concatenate([answer(state, who, u[0] < unreliable), news])
    sent = booked & ~declined
    kept = ~jnp.any(broken & (jnp.arange(2) < scenes.whole(knobs, 'rules', 0, 2)))
    success = (right & kept).astype(jnp.float32)
    share = free_N.mean(dtype=jnp.float32) * (sent & kept)
    reward = partial * share + (1 - partial) * success
    return base.Step(after, jnp.where(seen, spoken, 0).astype(jnp.int32), seen, reward, success,
                     sent, ~sent & (after.turn >= state.horizon))

  def expert(state, key):
    """Asks all who are needed, hears them out, then books; at the latest on turn T - 1."""
    del key
    can = awake(state) & ~state.asked & state.needed
    act = jnp.where(jnp.any(can), ask0 + jnp.argmax(can), WAIT)
    ready = jnp.all(state.heard | ~state.needed) | (state.turn >= state.horizon - 1)
    act = jnp.where(ready, book0 + wanted(state), act)
    return act[None].astype(jnp.int32), jnp.ones(1, bool)

  return scenes.task(
      vocab=vocab, prompt_len=3 + N, observation_len=4 + shown, max_turns=max_turns, reset=reset,
      step=step, expert=expert, idle=('heard', 'needed'), roles=1,
      alike=((place['hour'] + 1, H + N),),
      answer=lambda state: (book0 + wanted(state)).astype(jnp.int32))
