"""Playing the scenes in tests: one compiled program a scene serves every scripted policy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from tests import episodes as runs

NAMES = ('line', 'meeting', 'triage')
COUNT = 2000
KINDS = ('expert', 'words', 'actions', 'repeat', 'blind')


def actions(name):
  """Number of words that are actions; they are ids 1, 2, ..."""
  task = runs.build(name)
  last = dict(line='stop-4', meeting='book-11z', triage='refer')[name]
  return task.vocab.index(last)


def blind(name, state):
  """What can be earned without a look: reads the prompt, and no observation."""
  ids = {word: i for i, word in enumerate(runs.build(name).vocab)}
  if name == 'line':
    turn, late = state.turn, (state.turn == 0) & (state.setup != state.want)
    word = jnp.where(turn == 5, ids['service-2'], ids['run'])
    word = jnp.where(turn == 4, ids['service-1'], word)
    return jnp.where(late, ids['adjust'], jnp.where(turn == 1, ids['order'], word))
  if name == 'meeting':
    return jnp.where(state.goal == 0, ids['book-0z'], ids['book-11z'])
  return jnp.where(state.wish == 0, ids['rest-flu'], ids['pills-flu'])


@functools.cache
def _runner(name):
  task, legal = runs.build(name), actions(name)

  def play(knobs, key, kind, token):
    state, prompt, _ = task.reset(jax.random.fold_in(key, 0), knobs)
    state = task.reseed(state, jax.random.fold_in(key, 1))
    uniforms = jax.random.uniform(jax.random.fold_in(key, 2), (task.max_turns,))

    def turn(carry, uniform):
      state, alive = carry
      action = jnp.stack([
          task.expert(state, None)[0][0], (uniform * len(task.vocab)).astype(jnp.int32),
          1 + (uniform * legal).astype(jnp.int32), token, blind(name, state)])[kind]
      out = task.step(state, action[None].astype(jnp.int32), jnp.ones(1, bool), knobs)
      record = dict(action=action, observation=out.observation, valid=out.valid, reward=out.reward,
                    success=out.success, terminated=out.terminated, truncated=out.truncated,
                    alive=alive, state=out.state)
      return (out.state, alive & ~out.terminated & ~out.truncated), record

    _, record = jax.lax.scan(turn, (state, jnp.asarray(True)), uniforms)
    return record | dict(prompt=prompt, start=state)

  def run(knobs, kind, token):
    one = lambda i: play(knobs, jax.random.fold_in(keys.root(0), i), kind, token)
    return jax.vmap(one)(jnp.arange(COUNT))

  return jax.jit(run)


def episodes(name, kind, token=1, **knobs):
  """COUNT episodes as NumPy arrays. Kinds: expert, words (uniform tokens), actions (uniform words
  that are actions), repeat (one token), blind."""
  knobs = {k: jnp.float32(v) for k, v in (runs.build(name).knobs | knobs).items()}
  out = _runner(name)(knobs, jnp.int32(KINDS.index(kind)), jnp.int32(token))
  return jax.tree.map(np.asarray, out)


def scores(record):
  """(share of successes, mean sum of rewards) of episodes."""
  total = lambda x: float((x * record['alive']).sum(axis=1).mean())
  return total(record['success']), total(record['reward'])
