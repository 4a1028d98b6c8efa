"""Tier 3: a small decision process over T turns whose exact values are known.

Each turn shows a status and a cue, and takes one action. Let m be the mode, c the cue and o the
goal: the right action is (c + m + o floor(n / 2)) mod n; m and o are 0 at the start. On K decisive
turns, spread evenly, a wrong action does damage; on the other turns any action will do. Reward and
success are 1 on turn T if no damage is left, else 0. The episode always lasts T turns, also when it
is lost (but see `fatal`); nothing but the last turn pays.

    ok --wrong on a decisive turn--> hurt --next turn, right action, probability undo--> ok
                                     hurt --otherwise-------------------------------> lost

Only the turn right after a failure can repair it, decisive or not. So undo = 0 means that nothing
can be taken back, and undo = 1 gives paths BAD -> RECOVER on which both actions count.

`order` m above 0 is another rule of reward. The K decisive turns are cut into K / m blocks of m in
a row, and a block is won if the number of wrong actions on them is even: m = 1 asks whether the one
action was right, so that the outcome is a sum over turns; m = K is one parity (XOR), to which no
turn contributes anything alone. Each block won pays m / K at once, on its last decisive turn;
success is 1 on turn T if all are won. Damage is then the parity of the block under way, which a
second wrong action takes back: undo and fatal would be other rules and have to be 0, and K has to
be a multiple of m (`check.py` refuses the rest). `delay` is then turns after the last reward; to
withhold rewards there is `at_end` in `objective/rewards.py`.

    even <--wrong on a decisive turn of the block--> odd        the next block begins even

Latent state: turn, goal, cue, mode, damage (ok, hurt, lost; even is ok and odd is hurt) and whether
it shows. Cues are uniform and independent, so this is a Markov chain with 12 n states a turn, 24 n
with two goals; `study/oracle.py` solves it. The number of blocks won moves no later reward and is
not part of it.

Knobs: `horizon` T (turns, at most max_turns), `decisive` K, `visibility` v (share of failures that
the status shows from the next observation on), `undo` b (probability that a right action repairs),
`drift` d (probability a turn that the mode flips; the status names the new mode once, when it
happens), `switch` g (hazard of the goal: probability a turn that it changes; a word of its own says
so, once; it needs goals=2, which makes room for the word), `delay` (routine turns at the end,
between the last decisive block and the reward), `unmarked` (1: decisive cues look like the others),
`sources` m (how many times the cue is told, by m sources), `unreliable` e (probability that a
source lies: for the whole episode it tells of a uniform cue) and `fatal` (1: an episode that is
lost ends at once, so that failures are shorter than successes; no value changes). `manner` w pays
|w| of the reward for style: its share of the routine turns on which the index of the action is even
(w > 0) or odd (w < 0), turn by turn, and 1 - |w| for the outcome. The sign can change over training
(`schedule`): what is rewarded moves and nothing that is seen tells of it. With all but T, K and m
at 0, the case is easy: failures hidden, no drift, and cue -> action is one table. Liars are part of
the instance, what they say is noise; the latent chain knows neither, so the exact values of
policies that act on the latent state stay as they are, which are those of the outcome. The expert
sees the true cue; with e > 0 nobody who reads the sources can always do as well.

Prompts are few: the first cue is all that varies (n prompts). Train and held-out episodes share
their prompts and differ in the noise only; there is no split to make. Different streams give
different episodes, and generalisation is to be tested over knobs (longer T), not over prompts.

Floor: n^-K for uniform actions (0.0625 for n = 4, K = 2), |V|^-K for uniform tokens; undo raises
the first to (1 / n + (1 - 1 / n) b / n)^K where the turn after a failure decides nothing: 0.118 at
b = 0.5 and 0.191 at b = 1. Exploits: a constant action (`a0` on every turn) does as well as a
uniform one, with undo as well, as cues are independent; doing nothing (no action, or a word that is
none) earns 0 as long as some turn is decisive, and there is no way to stop early. With order m a
block is won by chance with (1 + (2 / n - 1)^m) / 2, 0.25, 0.625 and 0.531 for n = 4 and m = 1, 2
and 4, and if m is even, doing nothing wins every block: m wrong actions are an even number.
"""

import dataclasses

import jax
import jax.numpy as jnp

from grpo import types
from grpo.tasks import base

__all__ = ['make', 'State', 'index', 'states', 'is_decisive', 'closes', 'right_action']

OK, HURT, LOST = 0, 1, 2
PAD, ACTION = 0, 1


@types.pytree
class State:
  """Latent state, before the action of turn `turn`."""
  turn: jax.Array    # int32 []
  cue: jax.Array     # int32 []; 0 to n - 1
  mode: jax.Array    # int32 []; 0 or 1
  damage: jax.Array  # int32 []; OK, HURT, LOST
  shown: jax.Array   # int32 []; 1 if the status tells of the damage
  noise: jax.Array   # uint32 [2]; seed of the episode's noise, as plain numbers
  liars: jax.Array | None = None  # bool [M]; sources that tell of any cue
  goal: jax.Array | int = 0       # int32 []; 0 or 1
  won: jax.Array | int = 0        # int32 []; blocks won so far, where `order` asks for blocks


def is_decisive(turn, knobs):
  """Whether a wrong action on this turn does damage. bool, shape of `turn`.

  Turn t of the first T - delay is decisive if (t K) mod (T - delay) < K: the first turn of each of
  K blocks of equal length, so a failure has a following turn unless every turn is decisive.
  """
  horizon, decisive, delay = (jnp.asarray(knobs[k], jnp.int32) for k in ('horizon', 'decisive',
                                                                         'delay'))
  span = jnp.maximum(horizon - delay, 1)
  return (turn < span) & (turn * decisive % span < decisive)


def closes(turn, knobs):
  """Whether a block of `order` decisive turns ends with this one. bool, shape of `turn`."""
  horizon, decisive, delay, order = (jnp.asarray(knobs[k], jnp.int32)
                                     for k in ('horizon', 'decisive', 'delay', 'order'))
  number = turn * decisive // jnp.maximum(horizon - delay, 1)  # decisive turns before this one
  return is_decisive(turn, knobs) & (order > 0) & ((number + 1) % jnp.maximum(order, 1) == 0)


def right_action(state, actions):
  """Index of the action that the cue, the mode and the goal ask for."""
  return (state.cue + state.mode + state.goal * (actions // 2)) % actions


def index(state, actions):
  """Number of the latent state within its turn, from 0; the second goal has the later half."""
  place = ((state.cue * 2 + state.mode) * 3 + state.damage) * 2 + state.shown
  return place + 12 * actions * state.goal


def states(turn, actions, goals=1) -> State:
  """All 12 n latent states of one turn in the order of `index`, without noise (it is None).

  With two goals there are 24 n. Those that are OK and shown do not occur; they behave as OK.
  """
  i = jnp.arange(12 * actions * goals)
  return State(jnp.full_like(i, turn), i // 12 % actions, i // 6 % 2, i // 2 % 3, i % 2, None,
               goal=i // (12 * actions), won=jnp.zeros_like(i))


def make(*, actions: int = 4, max_turns: int = 8, max_sources: int = 1,
         goals: int = 1) -> base.Task:
  """The task with `actions` actions (n) and room for `max_turns` turns.

  Args:
    actions: n, at least 2.
    max_turns: largest horizon; `horizon` defaults to it, and is cut to it.
    max_sources: M, room for sources; `sources` defaults to 1. The last `sources` of them speak.
    goals: 1, or 2 for goals that change with hazard `switch`; a word more tells of them.

  Returns:
    The task; `decisive` defaults to 2.
  """
  if actions < 2:
    raise ValueError(f'horizon: actions must be at least 2, got {actions}')
  if max_turns < 1:
    raise ValueError(f'horizon: max_turns must be at least 1, got {max_turns}')
  if max_sources < 1:
    raise ValueError(f'horizon: max_sources must be at least 1, got {max_sources}')
  if goals not in (1, 2):
    raise ValueError(f'horizon: goals must be 1 or 2, got {goals}')
  M, told = max_sources, goals - 1  # `told` words of an observation are about the goal
  N, places = 12 * actions * goals, jnp.arange(max_sources + 1 + told)
  routine, marked = ACTION + actions, ACTION + 2 * actions
  status = ACTION + 3 * actions
  vocab = (('_',) + tuple(f'a{i}' for i in range(actions)) + tuple(f'c{i}' for i in range(actions))
           + tuple(f'C{i}' for i in range(actions))
           + tuple(f'{level}{news}' for level in ('ok', 'hurt', 'lost')
                   for news in ('', ':m0', ':m1'))
           + ('same', 'goal-0', 'goal-1')[:3 * told])
  told_from = status + 9

  def show(state, news, switched, lies, knobs):
    """Tokens and which are real: of the goal, if there are two, then status and cues.

    `news` and `switched` are 0, or 1 + the mode and the goal to name.
    """
    first = M - jnp.clip(jnp.asarray(knobs['sources'], jnp.int32), 1, M)
    level = jnp.where(state.shown > 0, state.damage, OK)
    mark = is_decisive(state.turn, knobs) & (jnp.asarray(knobs['unmarked'], jnp.float32) < 0.5)
    cues = jnp.where(mark, marked, routine) + jnp.where(state.liars, pick(lies), state.cue)
    cues = jnp.concatenate([jnp.zeros(1 + told, jnp.int32), cues])
    words = jnp.where(places == first + told, status + 3 * level + news, cues)
    if told:
      words = jnp.where(places == first, told_from + switched, words)
    return jnp.where(places >= first, words, PAD).astype(jnp.int32), places >= first

  def noise_of(key):
    return jax.random.bits(key, (2,), jnp.uint32)

  def reseed(state, key):
    return dataclasses.replace(state, noise=noise_of(key))

  def pick(uniform):
    """One of n from a uniform number; randint would take many times as long to compile."""
    return jnp.minimum((uniform * actions).astype(jnp.int32), actions - 1)

  def reset(key, knobs):
    zero = jnp.zeros((), jnp.int32)
    cue = pick(jax.random.uniform(jax.random.fold_in(key, 0)))
    draw = jax.random.uniform(jax.random.fold_in(key, 2), (2, M))
    liars = draw[0] < jnp.asarray(knobs['unreliable'], jnp.float32)
    state = State(zero, cue, zero, zero, zero, noise_of(jax.random.fold_in(key, 1)), liars,
                  zero, zero)
    return state, *show(state, 1 + zero, 1 + zero, draw[1], knobs)

  def step(state, action, valid, knobs):
    horizon = jnp.clip(jnp.asarray(knobs['horizon'], jnp.int32), 1, max_turns)
    visibility, undo, drift = (jnp.asarray(knobs[k], jnp.float32)
                               for k in ('visibility', 'undo', 'drift'))
    noise = jax.random.wrap_key_data(state.noise, impl='threefry2x32')
    draw = jax.random.uniform(jax.random.fold_in(noise, state.turn), (4 + M + told,))
    hit = valid[0] & (action[0] == ACTION + right_action(state, actions))
    fail = is_decisive(state.turn, knobs) & ~hit
    repaired = (state.damage == HURT) & hit & (draw[0] < undo)
    old = jnp.where(state.damage == HURT, jnp.where(repaired, OK, LOST), state.damage)
    damage = jnp.where(fail, jnp.where(old == OK, HURT, LOST), old)
    order, close = jnp.asarray(knobs['order'], jnp.int32), closes(state.turn, knobs)
    odd = (state.damage == HURT) ^ fail
    damage = jnp.where(order > 0, jnp.where(odd & ~close, HURT, OK), damage)
    won = state.won + (close & ~odd)
    seen = (state.shown > 0) | (fail & (draw[1] < visibility))
    flip = draw[2] < drift
    mode = jnp.where(flip, 1 - state.mode, state.mode)
    turned = draw[-1] < jnp.asarray(knobs['switch'], jnp.float32) if told else jnp.asarray(False)
    goal = jnp.where(turned, 1 - state.goal, state.goal)
    cue = pick(draw[3])
    after = State(state.turn + 1, cue, mode, damage, (seen & (damage != OK)).astype(jnp.int32),
                  state.noise, state.liars, goal, won)
    lost = (damage == LOST) & (jnp.asarray(knobs['fatal'], jnp.float32) > 0.5)
    over = (after.turn >= horizon) | lost
    share = order / jnp.maximum(jnp.asarray(knobs['decisive'], jnp.int32), 1)  # of one block
    solved = jnp.where(order > 0, won * order == jnp.asarray(knobs['decisive'], jnp.int32),
                       damage == OK)
    score = (over & solved).astype(jnp.float32)
    earned = jnp.where(order > 0, jnp.where(close & ~odd, share, 0.0), score)
    styled = style(state.turn, action, valid, knobs, horizon)
    reward = (1.0 - jnp.abs(jnp.asarray(knobs['manner'], jnp.float32))) * earned + styled
    shown = show(after, jnp.where(flip, 1 + mode, 0), jnp.where(turned, 1 + goal, 0),
                 draw[4:4 + M], knobs)
    return base.Step(after, *shown, reward, score, over, jnp.asarray(False))

  def style(turn, action, valid, knobs, horizon):
    """What the action of a routine turn earns for its manner."""
    manner, turns = jnp.asarray(knobs['manner'], jnp.float32), jnp.arange(max_turns)
    count = jnp.sum(~is_decisive(turns, knobs) & (turns < horizon))
    number = action[0] - ACTION
    fits = valid[0] & (number >= 0) & (number < actions) & (number % 2 == (manner < 0))
    paid = fits & ~is_decisive(turn, knobs)
    return jnp.where(paid, jnp.abs(manner) / jnp.maximum(count, 1), 0.0)

  def state_id(state):
    """1 + turn * N + index: `id - 1` is the place in the flattened arrays of the oracle."""
    return (1 + state.turn * N + index(state, actions)).astype(jnp.uint32)

  def potential(state_id, knobs):
    """Share of the turns that are behind, while nothing is damaged; else 0."""
    place = jnp.maximum(state_id, 1) - 1
    turn, damage = place // N, place % 6 // 2
    horizon = jnp.clip(jnp.asarray(knobs['horizon'], jnp.float32), 1, max_turns)
    return jnp.where(damage == OK, turn.astype(jnp.float32) / horizon, 0.0)

  def expert(state, key):
    del key
    return (ACTION + right_action(state, actions))[None].astype(jnp.int32), jnp.ones(1, bool)

  def summary(state):
    """The mode and, with two goals, the goal, in the words that told of them."""
    words = jnp.stack([status + 1 + state.mode, told_from + 1 + state.goal])[:1 + told]
    return words.astype(jnp.int32), jnp.ones(1 + told, bool)

  return base.Task(
      vocab=vocab, prompt_len=1 + told + M, action_len=1, observation_len=1 + told + M,
      max_turns=max_turns, stop_ids=(),
      knobs=dict(horizon=max_turns, decisive=min(2, max_turns), visibility=0.0, undo=0.0, drift=0.0,
                 switch=0.0, delay=0, unmarked=0.0, sources=1, unreliable=0.0, fatal=0.0,
                 manner=0.0, order=0),
      reset=reset, reseed=reseed, step=step, state_id=state_id, expert=expert,
      prompt_space=actions if M == 1 else None, potential=potential,
      summary=summary, alike=((routine, actions), (marked, actions)))
