"""Policies that play the easy case of a scene from what it shows, and know no stressor.

Each is (memory at the start, (memory, prompt, observation, turn, horizon) -> (memory, action word's
token)). `turn` counts from 0; the observation of turn 0 is all padding.
"""

import functools

import jax
import jax.numpy as jnp

from grpo import keys
from grpo.tasks import line as line_task
from tests import episodes as runs


def _ids(task, words):
  return jnp.asarray([task.vocab.index(word) for word in words])


def line(task):
  """Adjusts, orders one part, and services a machine once its gauge shows 2; trusts its gauges."""
  machines = task.observation_len - 3
  service = _ids(task, [f'service-{i + 1}' for i in range(machines)])
  run, order, adjust, same = _ids(task, ['run', 'order', 'adjust', 'set-a'])
  empty, want, levels = _ids(task, ['stock-0', 'want-a', 'g0'])

  def act(memory, prompt, seen, turn, horizon):
    done, ordered = memory
    seen = jnp.where(turn == 0, jnp.roll(prompt, machines + 3)[:machines + 3], seen)
    begin, length = line_task.watch(horizon)
    worn = (seen[3:] - levels >= 2) & ~done & (4 * (turn - begin) >= length)
    stock = seen[2] > empty
    go, lack = jnp.any(worn) & stock, ~stock & ~ordered
    action = jnp.where(go, service[jnp.argmax(seen[3:] * worn)], jnp.where(lack, order, run))
    shift = (turn == 0) & (prompt[2] - same != prompt[3] - want)
    return (done | (service == action), ordered | lack), jnp.where(shift, adjust, action)

  return (jnp.zeros(machines, bool), jnp.asarray(False)), act


def meeting(task):
  """Asks ann until she answers, then books one of her hours, by the goal and zone it was told."""
  ask, book, early, hour, quiet, zone = _ids(task, ['ask-ann', 'book-0z', 'goal-early', '0h',
                                                   'quiet', 'ann+0'])

  def act(memory, prompt, seen, turn, horizon):
    del turn, horizon
    real = (seen[1:-3] >= hour) & (seen[1:-3] < quiet)
    low = jnp.min(jnp.where(real, seen[1:-3] - hour, 99))
    high = jnp.max(jnp.where(real, seen[1:-3] - hour, -1))
    pick = jnp.where(prompt[2] == early, low, high) - (prompt[3] - zone)
    return memory, jnp.where(jnp.any(real), book + pick, ask)

  return jnp.zeros(()), act


def triage(task):
  """Asks each sign until it is clear; after two, treats in the way that was wished for."""
  no, ask, rest, wish = _ids(task, ['fever-no', 'ask-fever', 'rest-flu', 'wish-rest'])

  def act(known, prompt, seen, turn, horizon):
    del horizon
    code = seen[1] - no
    told = (turn > 0) & (code >= 0) & (code < 6)
    known = jnp.where(told & (jnp.arange(3) == code // 2), code % 2, known)
    fever = jnp.where(known[0] < 0, known[1] ^ known[2], known[0])
    rash = jnp.where(known[1] < 0, known[0] ^ known[2], known[1])
    unknown = known < 0
    next_ = jnp.argmax(unknown * (1 + (jnp.arange(3) + turn) % 3))
    treat = rest + 4 * (prompt[2] - wish) + 2 * fever + rash
    return known, jnp.where(jnp.sum(unknown) <= 1, treat, ask + next_)

  return jnp.full(3, -1), act


PLAYERS = dict(line=line, meeting=meeting, triage=triage)
COUNT = 2000


@functools.cache
def _runner(name):
  task = runs.build(name)
  start, act = PLAYERS[name](task)

  def play(knobs, key):
    state, prompt, _ = task.reset(jax.random.fold_in(key, 0), knobs)
    state = task.reseed(state, jax.random.fold_in(key, 1))

    def turn(carry, index):
      state, memory, seen, alive, success = carry
      memory, action = act(memory, prompt, seen, index, state.horizon)
      out = task.step(state, action[None].astype(jnp.int32), jnp.ones(1, bool), knobs)
      success = jnp.where(alive, out.success, success)
      return (out.state, memory, out.observation, alive & ~out.terminated & ~out.truncated,
              success), None

    seen = jnp.zeros(task.observation_len, jnp.int32)
    carry = state, start, seen, jnp.asarray(True), jnp.float32(0)
    return jax.lax.scan(turn, carry, jnp.arange(task.max_turns))[0][-1]

  def run(knobs):
    return jax.vmap(lambda i: play(knobs, jax.random.fold_in(keys.root(0), i)))(jnp.arange(COUNT))

  return jax.jit(run)


def success(name, **knobs):
  """Share of COUNT episodes of a scene that its player solves."""
  knobs = {k: jnp.float32(v) for k, v in (runs.build(name).knobs | knobs).items()}
  return float(_runner(name)(knobs).mean())
