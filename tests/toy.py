"""Tiny tasks and models for the tests of sampling and scoring."""

import jax
import jax.numpy as jnp

from grpo import types
from grpo.models import transformer
from grpo.tasks import base

VOCAB = 11
STOPS = (7, 9)

TINY = transformer.Shape(layers=2, hidden=16, heads=4, kv_heads=2, head_dim=6, mlp=24, vocab=VOCAB)


def _mix(*numbers):
  """uint32 hash of integers: noise that compiles in no time."""
  x = jnp.uint32(2166136261)
  for number in numbers:
    x = (x ^ jnp.asarray(number).astype(jnp.uint32)) * jnp.uint32(2654435761)
    x = x ^ (x >> 15)
    x = x * jnp.uint32(2246822519)
    x = x ^ (x >> 13)
  return x


def chatter(*, prompt=5, action=3, observation=2, turns=5, stops=STOPS):
  """A task that answers every turn with noise of its own, of varying length.

  State: instance, turn, noise of the sample, sum of the tokens so far. The reward of a turn is its
  number of real tokens. A turn ends the episode with probability `end_share` (a knob), and the
  task's own limit cuts it after `turns` turns.
  """

  def padded(seed, width, length):
    valid = jnp.arange(width) >= width - length
    return jnp.where(valid, 1 + _mix(seed, jnp.arange(width)) % (VOCAB - 1), 0).astype(
        jnp.int32), valid

  def reset(key, knobs):
    instance = jax.random.bits(key, (), jnp.uint32)
    state = dict(instance=instance, turn=jnp.int32(0), noise=jnp.uint32(0), total=jnp.int32(0))
    return state, *padded(instance, prompt, 1 + instance % prompt)

  def reseed(state, key):
    return state | dict(noise=jax.random.bits(key, (), jnp.uint32))

  def step(state, action, valid, knobs):
    total = state['total'] + jnp.sum(jnp.where(valid, action, 0), dtype=jnp.int32)
    noise = _mix(state['noise'], total, state['turn'])
    tokens, seen = padded(noise, observation, 1 + noise % max(observation, 1))
    over = (_mix(noise, 5) % 1000).astype(jnp.float32) < 1000 * knobs['end_share']
    state = state | dict(turn=state['turn'] + 1, total=total)
    return base.Step(state, tokens, seen, valid.sum(dtype=jnp.float32), over.astype(jnp.float32),
                     over, state['turn'] >= turns)

  def expert(state, key):
    return jnp.ones((action,), jnp.int32), jnp.ones((action,), bool)

  return base.Task(
      vocab=tuple(str(i) for i in range(VOCAB)), prompt_len=prompt, action_len=action,
      observation_len=observation, max_turns=turns, stop_ids=stops, knobs=dict(end_share=0.0),
      reset=reset, reseed=reseed, step=step,
      state_id=lambda state: _mix(state['instance'], state['total'], state['turn']) | jnp.uint32(1),
      expert=expert)


def lab(knobs, *, answers=3):
  """A task whose answer has to be asked for: `ask` shows it, `a1` answers and ends the episode.

  A table of logits can solve it, as all that counts is the last token. `knobs` are not read.
  """
  ask, first = 1, 2
  shown = first + answers
  quiet = shown + answers
  on = jnp.ones((1,), bool)

  def reset(key, knobs):
    state = dict(answer=jax.random.randint(key, (), 0, answers), turn=jnp.int32(0),
                 told=jnp.asarray(False), end=jnp.asarray(knobs['horizon'], jnp.int32))
    return state, jnp.full((1,), quiet, jnp.int32), on

  def step(state, action, valid, knobs):
    del knobs
    word = jnp.where(valid[0], action[0], 0)
    done = (word >= first) & (word < shown)
    hit = (word == first + state['answer']).astype(jnp.float32)
    after = state | dict(turn=state['turn'] + 1, told=state['told'] | (word == ask))
    said = jnp.where(word == ask, shown + state['answer'], quiet)
    return base.Step(after, said[None], on, hit, hit, done, ~done & (after['turn'] >= state['end']))

  def expert(state, key):
    del key
    return jnp.where(state['told'], first + state['answer'], ask)[None], on

  return base.Task(
      vocab=('_', 'ask', *(f'a{i}' for i in range(answers)), *(f's{i}' for i in range(answers)),
             '.'),
      prompt_len=1, action_len=1, observation_len=1, max_turns=4, stop_ids=(), knobs=knobs,
      reset=reset, reseed=lambda state, key: state, step=step, expert=expert,
      state_id=lambda state: _mix(state['answer'], state['turn'], state['told']) | jnp.uint32(1),
      answer=lambda state: first + state['answer'])


def two_lengths(knobs, *, long=8):
  """A task in which nothing matters but how long it takes: all episodes earn 1.

  A first word `stop` ends the episode after that turn; any other makes it `long` turns, whatever is
  said in them. Success is 1 for the short ones, so that it tells how many they are.
  """
  stop, quiet, on = 1, 2, jnp.ones((1,), bool)

  def reset(key, knobs):
    del key, knobs
    state = dict(turn=jnp.int32(0), short=jnp.asarray(False))
    return state, jnp.full((1,), quiet, jnp.int32), on

  def step(state, action, valid, knobs):
    del knobs
    short = state['short'] | ((state['turn'] == 0) & valid[0] & (action[0] == stop))
    after = dict(turn=state['turn'] + 1, short=short)
    over = short | (after['turn'] >= long)
    return base.Step(after, jnp.full((1,), quiet, jnp.int32), on, over.astype(jnp.float32),
                     short.astype(jnp.float32), over, jnp.asarray(False))

  return base.Task(
      vocab=('_', 'stop', 'go'), prompt_len=1, action_len=1, observation_len=1, max_turns=long,
      stop_ids=(), knobs=knobs, reset=reset, reseed=lambda state, key: state, step=step,
      expert=lambda state, key: (jnp.ones((1,), jnp.int32), on),
      state_id=lambda state: _mix(state['turn'], state['short']) | jnp.uint32(1))


def layout(task, *, turns, segments=1, carry=0):
  return types.Layout(task.prompt_len, task.action_len, task.observation_len, turns, segments,
                      carry)
