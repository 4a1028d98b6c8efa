"""Programs that do not depend on the method, shared by all arms: evaluation and cloning.

A cloned warm start is kept by the hash of all that decides it, so arms start from the same weights.
"""

import functools
import hashlib
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from grpo import build
from grpo import keys
from grpo import masked
from grpo import types
from grpo.learn import checkpoint
from grpo.learn import clone
from grpo.learn import compiling
from grpo.rollout import sampler
from grpo.tasks import schedules

__all__ = ['warm_start', 'programs', 'shared', 'traced', 'digest', 'AXIS']

AXIS = 'seeds'
_POINTS = 10  # evaluations of a run, where only their order of size matters


def digest(tree) -> str:
  """Twelve hex digits that stand for every value of nested dicts."""
  text = json.dumps(tree, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.cache
def programs(text: str, names: tuple[str, ...]):
  """Programs that do not depend on the method, shared by all arms of a process."""
  c = json.loads(text)

  def evaluate(params, key, step, values, frozen=None):
    return over(lambda *x: score(*x, frozen), in_axes=(0, 0, None, 0))(params, key, step, values)

  def score(params, key, step, values, frozen):
    actor = build.actor(c, dict(zip(names, values)), frozen)
    knobs = schedules.knobs(actor.schedule, actor.knobs, step)
    knobs = _split(knobs, c['evaluate']['heldout'])
    sampled = sampler.sample(
        actor.policy, params, actor.task, actor.layout, knobs, keys.stream(key, 'heldout'),
        step=step, prompts=c['evaluate']['prompts'], samples=c['evaluate']['group'],
        temperature=c['sample']['temperature'], version=step, axis_name=AXIS,
        forget=actor.config['window']['forget'])
    over_scored = lambda x_PG: masked.mean(x_PG, types.scored(sampled))
    return over_scored(sampled.success), over_scored(jnp.sum(sampled.rewards, axis=(2, 3)))

  def initial(key, values):
    return clone.initial(build.actor(c, dict(zip(names, values))), key)

  def imitate(carry, key, step, done, values):
    def body(carry, i):
      one = lambda carry, key, done, values: clone.train(
          build.actor(c, dict(zip(names, values))), carry, key, step + i, done)
      return over(one)(carry, key, done, values)

    carry, losses = jax.lax.scan(body, carry, jnp.arange(c['clone']['every']))
    return carry, losses[-1]

  over = functools.partial(jax.vmap, axis_name=AXIS)
  size = build.actor(c).layout.stream
  options = lambda rollouts: compiling.options(c['model'], rollouts * size)
  scored = _POINTS * c['evaluate']['prompts'] * c['evaluate']['group']
  cloned = c['clone']['prompts'] * c['clone']['steps']
  return (jax.jit(evaluate, compiler_options=options(scored)),
          jax.jit(over(initial), compiler_options=options(0)),
          jax.jit(imitate, donate_argnums=0, compiler_options=options(cloned)))


def _split(knobs, heldout):
  """Knobs that draw held-out prompts (1) or training prompts (0), where a task tells them apart."""
  return knobs | ({'heldout': heldout} if 'heldout' in knobs else {})


def traced(settings):
  """Names and float32 arrays of the scalars that a program takes as arguments."""
  names = tuple(sorted(settings or {}))
  return names, tuple(np.asarray(settings[n], np.float32) for n in names)


def shared(config, names):
  c = build.plain(config)
  subset = {field: c[field] for field in build.ACTOR_FIELDS}
  subset['sample'] = dict(temperature=c['sample']['temperature'])
  used = tuple(n for n in names if n.split('.')[0] in subset)
  return subset, used


def warm_start(config, seeds, *, settings=None, cache=None):
  """Policies that imitate the expert up to the pass rate that the config states.

  Args:
    config: a config or its nested dicts.
    seeds: list of integers.
    settings: see `run`.
    cache: folder in which the result is kept, by a hash of all that decides it; or None.

  Returns:
    (params with a leading seed axis, dict: pass rate and cloning steps of each seed).
    params is None where the config asks for no cloning.
  """
  names, values = traced(settings)
  subset, used = shared(config, names)
  subset = subset | dict(schedule={})  # its steps are those of training
  if subset['clone']['steps'] == 0:
    return None, {}
  chosen = tuple(v for n, v in zip(names, values) if n in used)
  evaluate, initial, imitate = programs(json.dumps(subset, sort_keys=True), used)
  roots = jnp.stack([keys.root(s) for s in seeds])
  store = None
  if cache is not None:
    plain_values = {n: np.asarray(v).tolist() for n, v in zip(used, chosen)}
    name = digest(dict(subset=subset, seeds=list(seeds), values=plain_values, jax=jax.__version__))
    store = checkpoint.Checkpointer(pathlib.Path(cache) / f'clone_{name}', keep=1)
    shapes = initial.eval_shape(roots, chosen)[0]
    found = store.restore_latest(shapes)
    if found is not None:
      store.close()
      return found[1], found[2]
  c = subset['clone']
  carry = initial(roots, chosen)
  done = np.zeros(len(seeds), bool)
  rate, taken = np.zeros(len(seeds)), np.zeros(len(seeds), int)
  for at in range(0, c['steps'], c['every']):
    carry, _ = imitate(carry, roots, at, jnp.asarray(done), chosen)
    # None is said, as `run` says it: with another number of arguments it were traced once more.
    score = np.asarray(evaluate(carry[0], roots, at, chosen, None)[0])
    rate, taken = np.where(done, rate, score), np.where(done, taken, at + c['every'])
    done = done | (score >= c['pass_rate'])
    if done.all():
      break
  info = dict(clone_pass_rate=rate.tolist(), clone_steps=taken.tolist())
  if store is not None:
    if store.restore_latest(shapes) is None:  # another process may have been faster: same numbers
      store.save(1, carry[0], meta=info)
    store.close()
  return carry[0], info
