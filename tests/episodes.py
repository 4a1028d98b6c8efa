"""Playing whole episodes of a task in tests, without a model."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys


@functools.cache
def build(module, **sizes):
  return importlib.import_module(f'grpo.tasks.{module}').make(**sizes)


def uniform(task):
  """A policy of uniform tokens over the whole vocabulary."""
  def act(state, key):
    del state
    tokens = jax.random.uniform(key, (task.action_len,)) * len(task.vocab)
    return tokens.astype(jnp.int32), jnp.ones(task.action_len, bool)
  return act


def play(task, knobs, key, act):
  """One episode: its prompt and a dict of what each turn returned."""
  state, prompt, valid = task.reset(jax.random.fold_in(key, 0), knobs)
  state = task.reseed(state, jax.random.fold_in(key, 1))
  act_key = jax.random.fold_in(key, 2)

  def turn(carry, index):
    state, alive = carry
    out = task.step(state, *act(state, jax.random.fold_in(act_key, index)), knobs)
    state = jax.tree.map(lambda new, old: jnp.where(alive, new, old), out.state, state)
    record = dict(observation=out.observation, valid=out.valid, reward=out.reward,
                  success=out.success, terminated=out.terminated, truncated=out.truncated,
                  alive=alive, state_id=task.state_id(out.state))
    return (state, alive & ~out.terminated & ~out.truncated), record

  _, record = jax.lax.scan(turn, (state, jnp.asarray(True)), jnp.arange(task.max_turns))
  return dict(prompt=prompt, prompt_valid=valid) | record


_RUNS = {}
COUNT = 2000


def episodes(task, name, seed=0, stride=1, **knobs):
  """COUNT episodes of 'expert' or 'uniform', as NumPy arrays, and the number of traces so far.

  One compiled program a task and policy serves all tests; knobs are traced. With stride=-1 the
  episodes sit in reverse order in the batch; they come back in the same order.
  """
  if (id(task), name) not in _RUNS:
    act = task.expert if name == 'expert' else uniform(task)
    traces = []

    def run(knobs, key, indices):
      traces.append(name)
      return jax.vmap(lambda i: play(task, knobs, jax.random.fold_in(key, i), act))(indices)

    _RUNS[id(task), name] = jax.jit(run), traces, task
  run, traces, _ = _RUNS[id(task), name]
  knobs = {k: jnp.float32(v) for k, v in (task.knobs | knobs).items()}
  out = run(knobs, keys.root(seed), jnp.arange(COUNT)[::stride])
  return jax.tree.map(lambda x: np.asarray(x)[::stride], out) | dict(traces=len(traces))


def success(record):
  """Share of episodes whose last turn is a success."""
  last = record['alive'].sum(axis=1) - 1
  return record['success'][np.arange(len(last)), last].mean()


def rates(task, tokens=None, count=20_000, **knobs):
  """Mean success, return, turns and share of truncated episodes of a policy without eyes.

  It repeats the action `tokens` (padded on the right; 0 is no token), or draws uniform tokens if
  that is None. One compiled program a task serves all such policies; knobs are traced.
  """
  if (id(task), 'rates') not in _RUNS:
    random = uniform(task)

    def run(knobs, key, action, blind, indices):
      def act(state, key):
        tokens, valid = random(state, key)
        return jnp.where(blind, action, tokens), jnp.where(blind, action > 0, valid)

      def one(i):
        record = play(task, knobs, jax.random.fold_in(key, i), act)
        alive = record['alive'].astype(jnp.float32)
        score = lambda name: jnp.sum(alive * record[name])
        last = jnp.sum(record['alive']) - 1
        return jnp.stack([record['success'][last], score('reward'), jnp.sum(alive),
                          score('truncated')])

      return jax.vmap(one)(indices).mean(axis=0)

    _RUNS[id(task), 'rates'] = jax.jit(run), [], task
  action = np.zeros(task.action_len, np.int32)
  action[:len(tokens or ())] = tokens or ()
  knobs = {k: jnp.float32(v) for k, v in (task.knobs | knobs).items()}
  out = _RUNS[id(task), 'rates'][0](knobs, keys.root(7), action, tokens is not None,
                                    jnp.arange(count))
  return dict(zip(('success', 'reward', 'turns', 'truncated'), np.asarray(out).tolist()))
