"""Tier 4: guard a production line whose machines wear, whose sensors drift and some of them lie.

The machines stand in a row: a turn makes one piece if none of them is down and the line is set to
the product that is wanted. K of the M machines wear; which ones is hidden. A gauge shows wear, 0 to
9, which is 10 times the square of age: little to see at first, then it goes fast. At age 1 a
machine is wrecked at the end of the turn, and the line stands still for good.

All wear falls into S = min(T, 12) turns in the middle of the shift, the watch, from turn
a = floor((T - S) / 2) on; before it nothing ages. So a longer shift is the same watch, with as much
time for the same work, between more quiet turns: they give no time, and each can be done wrong.

Actions, one word: `run`; `inspect-i` (tells the true wear, and sets the gauge of i right);
`service-i` (needs a part; the machine is down for a turn, its age is 0 and it lasts T - a - S / 4
turns); `stop-i` (down for this turn, does not age); `adjust` (changes the product); `order` (one
part, one order at a time; usable from the next turn on). Any other word is `run`.

Untouched, the r-th of K wearing machines is wrecked at a + (0.5 + 0.3 (r + u) / max(K, 2)) S, u
uniform, and a service before a + S / 4 does not last. The shift pays on its last turn, T: success
is output of at least a quota, T - K, the services that are needed and no turn more, less the turns
lost while a change of product was under way (up to `delay` for each that was called for), and at
least 1. reward = partial * min(1, output / quota) + (1 - partial) * success.

    prompt       rule rule set-a want-b spare-2 stock-1 g0 g2 g0 g1
    observation  report, news of the product, stock, and a gauge for each machine

Knobs (stressor): `horizon` T (long), `decisive` K, `visibility` v (share of wrecks that the gauge
shows as `gX`; else it shows 9, or a lie), `delay` (turns until service, product and parts take
effect), `drift` d (probability a turn that some gauge moves by one), `undo` b (probability that a
service repairs a wreck), `switch` g (probability a turn that the product changes; told once),
`unreliable` e (share of gauges that lie: 9 - level), `rules` (how many of these void the shift when
broken: inspect before service; no order while two parts are in stock or on their way), `partial`,
`heldout`. Broken rules are recorded in the state whether they count or not.

    easy case, 20,000 shifts       success   reward at partial = 1
      expert                         1.000     1.000
      words (uniform)                0.000     0.339
      actions (uniform)              0.000     0.255
      nothing (`run` all the time)   0.000     0.369
      repeat (the best word)         0.000     0.373
      blind                          0.170     0.682

Ceiling: the expert, who sees ages, keeps both rules and inspects what wears visibly (if more than
two machines wear, all of them at once); 1.00 at K = 2 and 3 for any T from 12 to 1024; with K = 4
quiet turns to prepare in are needed: 0.35, 0.84 and 1.00 at T of 15, 16 and 19; 0.99, 0.85 and 0.70
with delay 1, 2 and 3. Floor: actions. Exploits: `blind` adjusts if the prompt says so, and services
two machines on fixed turns: one pair in six is the right one. To stop at once earns nothing. A
policy of observations alone solves every easy shift, too (tests/players.py). `horizon` should be at
least 3 (K + 1): a shorter shift makes its quota unguarded.
"""

import dataclasses

import jax
import jax.numpy as jnp

from grpo import types
from grpo.tasks import base
from grpo.tasks import scenes

__all__ = ['make', 'State', 'gauge', 'watch']

LEVELS = 10       # words of a gauge
WATCH = 12        # turns of a shift in which machines wear, at most
EARLY = 0.25      # a service before that share of the watch does not last
PARTS = 3         # parts that the store holds
ENOUGH = 2        # parts in stock or on the way; more is hoarding
TELLING = 2       # a level that only machines that wear reach
RUN, ORDER, ADJUST, FIRST = 1, 2, 3, 4
RULES = ('inspect-first', 'no-hoard')


@types.pytree
class State:
  """Latent state before an action. M machines."""
  turn: jax.Array       # int32 []
  age: jax.Array        # f32 [M]; 1 is the end of a machine
  rate: jax.Array       # f32 [M]; age of a turn; 0 does not wear
  wrecked: jax.Array    # bool [M]
  shown: jax.Array      # bool [M]; the gauge tells of the wreck
  liar: jax.Array       # bool [M]; the gauge lies
  bias: jax.Array       # int32 [M]; drift of the gauge, in levels
  due: jax.Array        # int32 [M]; turns until a service that was asked for, 0: none
  inspected: jax.Array  # bool [M]; since the last service
  stock: jax.Array      # int32 []; parts
  coming: jax.Array     # int32 []; turns until the part on order is here, 0: none
  turning: jax.Array    # int32 []; turns until the product changes, 0: it does not
  setup: jax.Array      # int32 []; product that is made
  want: jax.Array       # int32 []; product that is wanted
  output: jax.Array     # int32 []; good pieces
  spare: jax.Array      # int32 []; turns that may be lost to services
  grace: jax.Array      # int32 []; turns that may be lost to changes of product: delay for each
  waited: jax.Array     # int32 []; turns that were lost to them
  broken: jax.Array     # bool [2]; rules that were broken
  horizon: jax.Array    # int32 []; T
  lag: jax.Array        # int32 []; delay
  number: jax.Array     # int32 []; the instance
  noise: jax.Array      # uint32 [2]


def gauge(state):
  """Level int32 [M] that each gauge shows, 0 to 9; LEVELS for a wreck that is told."""
  level = _level(state.age)
  shown = jnp.clip(jnp.where(state.liar, LEVELS - 1 - level, level) + state.bias, 0, LEVELS - 1)
  return jnp.where(state.shown, LEVELS, shown)


def _level(age):
  return jnp.clip((LEVELS * age * age).astype(jnp.int32), 0, LEVELS - 1)


def watch(horizon):
  """(first turn, number of turns) of the watch of a shift of `horizon` turns, int32 []."""
  length = jnp.minimum(horizon, WATCH)
  return (horizon - length) // 2, length


def make(*, machines: int = 4, max_turns: int = 12) -> base.Task:
  """The line with `machines` machines (M) and room for `max_turns` turns.

  Args:
    machines: M, 2 to 9.
    max_turns: longest shift; `horizon` defaults to it and is cut to it.

  Returns:
    The task; `decisive` defaults to 2.
  """
  M = machines
  if not 2 <= M <= 9:
    raise ValueError(f'line: machines must be 2 to 9, got {M}')
  if max_turns < 1:
    raise ValueError(f'line: max_turns must be at least 1, got {max_turns}')
  each = jnp.arange(M)
  names = [str(i + 1) for i in range(M)]
  vocab = ['_', 'run', 'order', 'adjust',
           *(f'{verb}-{i}' for verb in ('inspect', 'service', 'stop') for i in names)]
  inspect0, service0, stop0 = FIRST, FIRST + M, FIRST + 2 * M
  place = {}
  for name, words in dict(
      report=['-', *(f'found-{i}' for i in range(LEVELS)), 'found-wreck', 'no-part'],
      news=['same', 'want-a', 'want-b'], setup=['set-a', 'set-b'],
      spare=[f'spare-{i}' for i in range(M + 1)], stock=[f'stock-{i}' for i in range(PARTS + 1)],
      gauge=[f'g{i}' for i in range(LEVELS)] + ['gX'], rule=['no-rule', *RULES]).items():
    place[name] = len(vocab)
    vocab += words

  def reset(key, knobs):
    number, u, noise = scenes.begin(key, knobs['heldout'], 4 * M + 2)
    horizon, lag, decisive, rules = (scenes.whole(knobs, *bound) for bound in (
        ('horizon', 1, max_turns), ('delay', 0, max_turns), ('decisive', 0, M), ('rules', 0, 2)))
    age, rank = 0.4 * u[:M], scenes.ranks(u[M:2 * M])
    end = 0.5 + 0.3 * (rank + u[2 * M:3 * M]) / jnp.maximum(decisive, 2)
    rate = jnp.where(rank < decisive, (1 - age) / (end * watch(horizon)[1]), 0.0)
    zero, no = jnp.zeros((), jnp.int32), jnp.zeros(M, bool)
    setup, want = scenes.pick(u[-1], 2), scenes.pick(u[-2], 2)
    liar = u[3 * M:4 * M] < jnp.asarray(knobs['unreliable'], jnp.float32)
    state = State(
        turn=zero, age=age, rate=rate, wrecked=no, shown=no, liar=liar, bias=no.astype(jnp.int32),
        due=no.astype(jnp.int32), inspected=no, stock=zero + 1, coming=zero, turning=zero,
        setup=setup, want=want, output=zero, spare=decisive, grace=lag * (setup != want),
        waited=zero, broken=jnp.zeros(2, bool), horizon=horizon, lag=lag, number=number,
        noise=noise)
    rule = place['rule'] + jnp.where(jnp.arange(2) < rules, 1 + jnp.arange(2), 0)
    head = jnp.stack([place['setup'] + setup, place['news'] + 1 + want, place['spare'] + decisive,
                      place['stock'] + state.stock])
    prompt = jnp.concatenate([rule, head, place['gauge'] + gauge(state)]).astype(jnp.int32)
    return state, prompt, jnp.ones(prompt.shape, bool)

  def step(state, action, valid, knobs):
    visibility, drift, undo, switch, partial = (
        jnp.asarray(knobs[k], jnp.float32)
        for k in ('visibility', 'drift', 'undo', 'switch', 'partial'))
    lag, u = state.lag, scenes.draws(state.noise, state.turn, 6)
    act = jnp.where(valid[0], action[0], RUN)
    inspect, service, stop = (act == first + each for first in (inspect0, service0, stop0))
    order, ordering = act == ORDER, (act == ORDER) & (state.coming == 0)
    lacking = jnp.any(service) & (state.stock == 0)
    accepted = service & (state.stock > 0) & (state.due == 0)
    broken = state.broken | jnp.stack([jnp.any(accepted & ~state.inspected),
                                       order & (state.stock + (state.coming > 0) >= ENOUGH)])
    # Requests enter with their delay; what is due now happens now.
    due = jnp.where(accepted, 1 + lag, state.due)
    turning = jnp.where((act == ADJUST) & (state.turning == 0), 1 + lag, state.turning)
    coming = jnp.where(ordering, 1 + lag, state.coming)
    serviced, setup = due == 1, jnp.where(turning == 1, 1 - state.setup, state.setup)
    works = serviced & (~state.wrecked | (u[0] < undo))
    wrecked = state.wrecked & ~works
    down = serviced | stop | wrecked
    output = state.output + (~jnp.any(down) & (setup == state.want))
    # A line that stands for another reason waits for nothing.
    waited = state.waited + ((turning > 0) & (setup != state.want) & ~jnp.any(down))
    begin, length = watch(state.horizon)
    life = state.horizon - begin - EARLY * length
    rate = jnp.where(works & (state.rate > 0), 1 / life, state.rate)
    age = jnp.where(works, 0.0, state.age)
    age = jnp.minimum(jnp.where(down | (state.turn < begin), age, age + rate), 1.0)
    breaks = ~wrecked & (age >= 1)
    bias = state.bias + jnp.where((u[2] < drift) & (each == scenes.pick(u[3], M)),
                                  jnp.where(u[4] < 0.5, -1, 1), 0)
    flip = u[5] < switch
    want = jnp.where(flip, 1 - state.want, state.want)
    stock = jnp.minimum(state.stock - jnp.any(accepted) + (coming == 1), PARTS)
    after = dataclasses.replace(
        state, turn=state.turn + 1, age=age, rate=rate, wrecked=wrecked | breaks,
        shown=(state.shown & wrecked) | (breaks & (u[1] < visibility)),
        bias=jnp.where(inspect, 0, bias), due=jnp.maximum(due - 1, 0),
        inspected=(state.inspected | inspect) & ~accepted, stock=stock,
        coming=jnp.maximum(coming - 1, 0), turning=jnp.maximum(turning - 1, 0), setup=setup,
        want=want, output=output, grace=state.grace + lag * flip, waited=waited, broken=broken)

    found = jnp.max(jnp.where(inspect, 1 + jnp.where(state.wrecked, LEVELS, _level(age)), 0))
    report = place['report'] + jnp.where(lacking, LEVELS + 2, found)
    news = place['news'] + jnp.where(flip, 1 + want, 0)
    observation = jnp.concatenate([jnp.stack([report, news, place['stock'] + stock]),
                                   place['gauge'] + gauge(after)]).astype(jnp.int32)
    over, waits = after.turn >= state.horizon, jnp.minimum(after.waited, after.grace)
    quota = jnp.maximum(state.horizon - state.spare - waits, 1)
    kept = ~jnp.any(broken & (jnp.arange(2) < scenes.whole(knobs, 'rules', 0, 2)))
    success = (over & kept & (output >= quota)).astype(jnp.float32)
    share = jnp.minimum(output / quota, 1.0) * (over & kept)
    reward = partial * share + (1 - partial) * success
    return base.Step(after, observation, jnp.ones(observation.shape, bool), reward, success, over,
                     jnp.asarray(False))

  def expert(state, key):
    """Keeps both rules. Of the machines that wear visibly, serves the one that fails first."""
    del key
    begin, length = watch(state.horizon)
    left = jnp.where(state.rate > 0, (1 - state.age) / jnp.maximum(state.rate, 1e-9), jnp.inf)
    left = left + jnp.maximum(begin - state.turn, 0)
    fails = (left < state.horizon - state.turn) & (state.due == 0)
    # Waits until the true level tells, or time is short, so that it can be imitated; with more
    # than two machines there is no time for that.
    needy = fails & ((_level(state.age) >= TELLING) | (left <= state.lag + 2)
                     | (jnp.sum(state.rate > 0) > 2))
    early, lasts = state.turn + state.lag, begin + EARLY * length
    first = lambda among: jnp.argmin(jnp.where(among, left, jnp.inf))
    ready, unseen = needy & state.inspected & (early >= lasts), needy & ~state.inspected
    parts = state.stock + (state.coming > 0)
    short = (jnp.sum(fails) > parts) & (parts < ENOUGH) & (state.coming == 0)
    act = jnp.where(jnp.any(unseen), inspect0 + first(unseen), RUN)
    act = jnp.where(short, ORDER, act)
    act = jnp.where(jnp.any(ready) & (state.stock > 0), service0 + first(ready), act)
    adjust = ((state.setup != state.want) != (state.turning > 0))
    act = jnp.where(adjust & (state.turning == 0), ADJUST, act)
    return act[None].astype(jnp.int32), jnp.ones(1, bool)

  return scenes.task(
      vocab=vocab, prompt_len=6 + M, observation_len=3 + M, max_turns=max_turns, reset=reset,
      step=step, expert=expert, idle=(), decisive=2,
      alike=((place['gauge'], LEVELS),))
