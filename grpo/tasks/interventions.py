"""Interventions at a chosen turn, in any task of several turns: a pure function Task -> Task.

Each knob is a turn, counted from 0; -1 is never. All act on what follows the action of that turn t:

  wrong_at      the observation is wrong: words that could stand for one another are swapped, such
                as a gauge of 2 for one of 7, or yes for no; the world itself is as it was
  switch_at     the goal changes, as by the task's own hazard `switch`, and is told in its words
  interrupt_at  `interrupted`: the episode is cut (`truncated`); its state can be continued
  correct_at    `correction service-1`: what the expert would do now
  drop_at       `rules-off`: no rule counts from turn t + 1 on, also none that was broken before
  pin_at        `pinned check-first no-rule`: from here on each observation repeats the rules

What is said stands before the observation, in words of its own behind those of the task, so no
token changes its meaning. With every knob at -1 prompts, observations, states, rewards and ends are
those of the task, bit for bit; only the room for observations is wider. A goal can be switched in
`line`, `meeting`, `triage` and, with goals=2, `horizon`; the first three have rules.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from grpo import keys
from grpo import types
from grpo.tasks import base

__all__ = ['wrap', 'swapped', 'State', 'KNOBS']

KNOBS = ('wrong_at', 'switch_at', 'interrupt_at', 'correct_at', 'drop_at', 'pin_at')
WORDS = ('interrupted', 'rules-off', 'pinned', 'correction')


@types.pytree
class State:
  """A state of the task, and what an intervention has to know."""
  inner: Any
  turn: jax.Array   # int32 []
  rules: jax.Array  # int32 [R]; the words of the prompt that tell the rules


def swapped(tokens, alike):
  """Tokens with each one that has likes replaced by the one half-way on among them.

  Args:
    tokens: int32 [...].
    alike: pairs of (first id, count), see `base.Task`.
  """
  out = tokens
  for first, count in alike:
    place = tokens - first
    out = jnp.where((place >= 0) & (place < count), first + (place + count // 2) % count, out)
  return out


def wrap(task: base.Task) -> base.Task:
  """The task with a knob for each of `KNOBS` that means something in it.

  Raises:
    ValueError: a task of one turn, where nothing comes after an action.
  """
  if task.max_turns < 2:
    raise ValueError('interventions need a task of several turns, and this one has a single turn')
  R, A = task.rule_words, task.action_len
  told, ruled = len(task.vocab), 'rules' in task.knobs
  interrupted, off, pinned, correction = (told + i for i in range(len(WORDS)))
  named = [k for k in KNOBS if not (k == 'switch_at' and 'switch' not in task.knobs)
           and not (k in ('drop_at', 'pin_at') and not ruled)]

  def reset(key, knobs):
    inner, prompt, valid = task.reset(key, knobs)
    return State(inner, jnp.int32(0), prompt[:R]), prompt, valid

  def step(state, action, valid, knobs):
    at = {k: jnp.asarray(knobs[k], jnp.int32) for k in named}
    now = {k: state.turn == turn for k, turn in at.items()}
    changed = dict(knobs)
    if 'switch_at' in now:
      changed['switch'] = jnp.where(now['switch_at'], 1.0, knobs['switch'])
    if ruled:
      lifted = (at['drop_at'] >= 0) & (state.turn > at['drop_at'])
      changed['rules'] = jnp.where(lifted, 0, knobs['rules'])
    out = task.step(state.inner, action, valid, changed)
    seen = jnp.where(now['wrong_at'], swapped(out.observation, task.alike), out.observation)
    parts = [_notice([interrupted], now['interrupt_at'])]
    if ruled:
      parts += [_notice([off], now['drop_at']),
                _notice([pinned, *state.rules], (at['pin_at'] >= 0) & (state.turn >= at['pin_at']))]
    advice, real = task.expert(out.state, keys.stream(keys.root(0), 'correction'))
    parts += [_notice([correction], now['correct_at']), (advice, real & now['correct_at'])]
    observation, real = _right(*(jnp.concatenate(x) for x in zip(*parts, (seen, out.valid))))
    return base.Step(
        State(out.state, state.turn + 1, state.rules), observation, real, out.reward, out.success,
        out.terminated, out.truncated | (now['interrupt_at'] & ~out.terminated))

  return dataclasses.replace(
      task, vocab=task.vocab + WORDS,
      observation_len=task.observation_len + 2 + A + (2 + R) * ruled,
      knobs=task.knobs | {k: -1 for k in named}, reset=reset,
      reseed=lambda state, key: dataclasses.replace(state, inner=task.reseed(state.inner, key)),
      step=step, state_id=lambda state: task.state_id(state.inner),
      expert=lambda state, key: task.expert(state.inner, key),
      summary=None if task.summary is None else lambda state: task.summary(state.inner),
      answer=None if task.answer is None else lambda state: task.answer(state.inner))


def _notice(words, on):
  """(tokens [n], whether they are said [n])."""
  words = jnp.stack([jnp.asarray(word, jnp.int32) for word in words])
  return words, jnp.full(words.shape, on)


def _right(tokens, valid):
  """The same words in the same order, moved to the right end; padding is 0."""
  width = tokens.shape[0]
  place = width - jnp.cumsum(valid[::-1])[::-1]
  here = (place[None] == jnp.arange(width)[:, None]) & valid[None]
  return jnp.sum(jnp.where(here, tokens[None], 0), axis=1), jnp.any(here, axis=1)
