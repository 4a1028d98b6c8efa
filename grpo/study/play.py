"""Playing a task without a model: scores of a policy, an episode as text, and how fast a task is.

A policy here is (state, key) -> (action [A], valid [A]), as `task.expert` is: it may look at hidden
state. `uniform` is the random policy of the floors.
"""

from collections.abc import Callable, Iterator
import dataclasses
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grpo import build
from grpo import keys
from grpo import types
from grpo.rollout import compaction
from grpo.rollout import sampler
from grpo.tasks import base

__all__ = ['uniform', 'scores', 'Turn', 'turns', 'sampled', 'rate']


def uniform(task: base.Task) -> Callable:
  """The policy of uniform tokens of the whole vocabulary."""
  def act(state, key):
    del state
    tokens = jax.random.uniform(key, (task.action_len,)) * len(task.vocab)
    return tokens.astype(jnp.int32), jnp.ones(task.action_len, bool)
  return act


def _start(task, knobs, key):
  """(state, prompt, valid) of an episode with noise of its own."""
  state, prompt, valid = task.reset(keys.stream(key, 'task'), knobs)
  return task.reseed(state, keys.stream(key, 'noise')), prompt, valid


def _score(task, act, key, knobs):
  """(success, sum of rewards, turns) of one episode; ends when it is over."""
  def turn(carry):
    index, state, _, success, total = carry
    out = task.step(state, *act(state, keys.stream(key, 'act', index)), knobs)
    over = out.terminated | out.truncated | (index + 1 >= task.max_turns)
    return index + 1, out.state, ~over, out.success, total + out.reward

  state, *_ = _start(task, knobs, key)
  start = jnp.int32(0), state, jnp.asarray(True), jnp.float32(0), jnp.float32(0)
  count, _, _, success, total = jax.lax.while_loop(lambda carry: carry[2], turn, start)
  return success, total, count


def scores(task: base.Task, act: Callable, count: int) -> Callable:
  """A compiled (knobs, key) -> (success, sum of rewards, turns) of `count` episodes, f32 [count].

  Knobs are traced, so one program serves a grid of them.
  """
  def run(knobs, key):
    one = lambda i: _score(task, act, keys.stream(key, 'episode', i), knobs)
    return jax.vmap(one)(jnp.arange(count))

  compiled = jax.jit(run)
  as_arrays = lambda knobs: {k: jnp.float32(v) for k, v in (task.knobs | dict(knobs)).items()}
  return lambda knobs, key: jax.tree.map(np.asarray, compiled(as_arrays(knobs), key))


@dataclasses.dataclass(frozen=True)
class Turn:
  """One turn, as text. The first one of an episode has no action, and shows the prompt."""
  action: str
  observation: str
  reward: float
  over: str         # '', 'solved', 'failed' or 'cut'
  state: Any        # before the next action


def turns(task: base.Task, act: Callable, key, **knobs) -> Iterator[Turn]:
  """Plays one episode turn by turn (host side)."""
  knobs, act = {k: jnp.float32(v) for k, v in (task.knobs | knobs).items()}, jax.jit(act)
  start = jax.jit(lambda knobs, key: _start(task, knobs, key))(knobs, key)
  yield from _follow(task, knobs, start,
                     lambda state, index: act(state, keys.stream(key, 'act', index)))


def sampled(actor: build.Actor, params, key) -> Iterator[Turn]:
  """One episode of a model, sampled as in training; then it is played again turn by turn."""
  task, c = actor.task, actor.config
  knobs = {k: jnp.float32(v) for k, v in actor.knobs.items()}

  def draw(params):
    # The streams of the first sample of the first prompt of `sampler.sample` at step 0.
    state, prompt, valid = task.reset(keys.stream(key, 'task', 0, 0), knobs)
    start = task.reseed(state, keys.stream(key, 'noise', 0, 0, 0)), prompt, valid
    return start, sampler.sample(
        actor.policy, params, task, actor.layout, knobs, key, step=0, prompts=1, samples=1,
        temperature=c['sample']['temperature'], forget=c['window']['forget'])

  start, rollout = jax.jit(draw)(params)
  acted = rollout.mask & ~compaction.places(actor.layout)  # what is said to the task
  tokens_T, turn_T, mask_T = (np.asarray(types.stream(x))[0, 0]
                              for x in (rollout.tokens, rollout.turn, acted))

  def act(state, index):
    del state
    words = tokens_T[mask_T & (turn_T == index)]
    rest = task.action_len - len(words)
    return jnp.asarray(np.pad(words, (0, rest))), jnp.arange(task.action_len) < len(words)

  yield from _follow(task, knobs, start, act)


def _follow(task, knobs, start, act):
  """Turns of an episode from (state, prompt, valid); `act` is (state, index) -> action."""
  step, (state, prompt, valid) = jax.jit(task.step), start
  yield Turn('', task.render(prompt, valid), 0.0, '', state)
  for index in range(task.max_turns):
    action, real = act(state, index)
    out = step(state, action, real, knobs)
    over = ''
    if out.terminated:
      over = 'solved' if out.success > 0 else 'failed'
    elif out.truncated or index + 1 == task.max_turns:
      over = 'cut'
    state = out.state
    yield Turn(task.render(action, real), task.render(out.observation, out.valid),
               float(out.reward), over, state)
    if over:
      return


def rate(task: base.Task, batch: int, repeats: int = 5) -> dict[str, float]:
  """Steps a second of `batch` episodes at once, played to `max_turns` by uniform tokens.

  An episode that is over is stepped on, as the sampler does with rows that wait for others. Draws
  of the policy and the start of an episode count as well.
  """
  act = uniform(task)

  def one(knobs, key):
    def turn(state, index):
      out = task.step(state, *act(state, keys.stream(key, 'act', index)), knobs)
      return out.state, out.reward + jnp.sum(out.observation)
    return jnp.sum(jax.lax.scan(turn, _start(task, knobs, key)[0],
                                jnp.arange(task.max_turns))[1])

  run = jax.jit(lambda knobs, key: jnp.sum(jax.vmap(
      lambda i: one(knobs, keys.stream(key, 'episode', i)))(jnp.arange(batch))))
  knobs = {k: jnp.float32(v) for k, v in task.knobs.items()}
  times = []
  for i in range(repeats + 1):
    begun = time.perf_counter()
    jax.block_until_ready(run(knobs, keys.root(i)))
    times.append(time.perf_counter() - begun)
  return dict(steps_s=batch * task.max_turns / min(times[1:]), compile_s=times[0] - min(times[1:]),
              turns=task.max_turns, batch=batch)
