"""Evaluates a finished or running training run from its folder."""

from collections.abc import Mapping
import json
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grpo import build
from grpo import check
from grpo import keys
from grpo import masked
from grpo import ranges
from grpo import types
from grpo.learn import actors
from grpo.learn import checkpoint
from grpo.learn import loop
from grpo.learn import pretrained
from grpo.learn import record
from grpo.rollout import choose as choices
from grpo.rollout import sampler
from grpo.study import process

__all__ = ['load', 'load_all', 'run', 'elsewhere']


def load(folder: pathlib.Path):
  """Config, seeds, step and newest complete state of a run; raises as `load_all` does."""
  config, seeds, states = load_all(folder, every=False)
  return config, seeds, *states[-1]


def load_all(folder: pathlib.Path, *, every: bool = True):
  """Config, seeds and pairs of (step, state) of a run, oldest first.

  Args:
    folder: of the run.
    every: every complete checkpoint that is kept, or the newest alone.

  Raises:
    ValueError: the folder holds no run, one that cannot be read, or no complete checkpoint.
  """
  path = folder / 'config.json'
  if not path.is_file():
    raise ValueError(f'{folder} holds no run: it has no config.json')
  try:
    saved = record.read_json(path)
    config, seeds, settings = saved['config'], saved['seeds'], saved['settings']
    config = config | {'mesh': dict(data=1, model=1)}  # any machine can read it
    names = tuple(sorted(settings))
    values = tuple(np.asarray(settings[n], np.float32) for n in names)
  except (KeyError, OSError, TypeError, ValueError) as error:
    raise ValueError(f'{path} is unreadable: it should hold config, seeds and settings of a run '
                     f'({type(error).__name__}: {error})') from error
  programs = loop.Programs(config, names)
  given, frozen = pretrained.load(config, len(seeds))
  shapes = programs.initial.eval_shape(np.asarray(seeds, np.int32), given, values, frozen)
  with checkpoint.Checkpointer(folder / 'checkpoints') as store:
    newest = store.restore_latest(shapes)
    if newest is None:
      raise ValueError(f'{folder} holds no complete checkpoint yet')
    found = [store.restore_latest(shapes, before=step + 1)
             for step in store.steps()[:-1] if every and step < newest[0]]
  states = {step: state for step, state, _ in [*filter(None, found), newest]}
  return config, seeds, sorted(states.items())


def run(folder: pathlib.Path, *, prompts: int, repeats: int, passes, temperature=None, top_k=None,
        top_p=None, greedy: bool = False, heldout: bool = True, overrides=None) -> dict:
  """Success, pass@k and pass^k of every seed on held-out prompts.

  Args:
    folder: of a run.
    prompts: held-out prompts; the same for all seeds.
    repeats: episodes of each.
    passes: values of k, each at most `repeats`.
    temperature: None for that of training.
    top_k, top_p, greedy: truncation, at most one of them.
    heldout: whether prompts are held-out ones, where the task has such a split.
    overrides: dotted path -> value; changes the task.

  Returns:
    dict with the step, what was asked, and 'seeds': a dict of numbers for each.
  """
  for k in passes:
    if not 1 <= k <= repeats:
      raise ValueError(f'passes: k={k} must be in 1..{repeats}, the number of repeats')
  if top_p is not None and not 0 < top_p <= 1:
    raise ValueError(f'top_p: must be above 0 and at most 1, got {top_p}')
  config, seeds, step, state = load(folder)
  config = _changed(config, overrides or {})
  heat = config['sample']['temperature'] if temperature is None else temperature
  if not heat > 0:
    raise ValueError(f'temperature: must be above 0, got {heat}; greedy takes the likeliest token')
  chosen = (choices.top_k(top_k) if top_k is not None else
            choices.top_p(top_p) if top_p is not None else choices.greedy if greedy else None)
  frozen = pretrained.load(config, len(seeds))[1]
  actor = build.actor(config)
  knobs = actor.knobs | ({'heldout': 1} if heldout and 'heldout' in actor.knobs else {})

  def evaluate(params, frozen):
    sampled = sampler.sample(
        build.actor(config, frozen=frozen).policy, params, actor.task, actor.layout, knobs,
        keys.stream(keys.root(0), 'evaluate'), step=0, prompts=prompts, samples=repeats,
        temperature=heat, axis_name=loop.AXIS, choose=chosen, forget=config['window']['forget'])
    reward_PG = jnp.sum(sampled.rewards, axis=(2, 3))
    length_PG = jnp.sum(sampled.mask, axis=(2, 3))
    on_PG = types.scored(sampled)
    of_scored = lambda x_PG: masked.mean(x_PG, on_PG)
    return sampled.success > 0.5, on_PG, of_scored(reward_PG), of_scored(length_PG), jnp.mean(
        sampled.truncated)

  solved, scored, reward, length, cut = jax.device_get(
      jax.jit(jax.vmap(evaluate, axis_name=loop.AXIS, in_axes=(0, None)))(state.params, frozen))
  rows = []
  for i, seed in enumerate(seeds):
    rows.append(dict(seed=seed, success=float(solved[i][scored[i]].mean()),
                     reward=float(reward[i]), tokens=float(length[i]),
                     truncated=float(cut[i]), unscorable=float(1.0 - scored[i].mean()),
                     **{f'pass@{k}': process.pass_at(solved[i], k, scored[i]) for k in passes},
                     **{f'pass^{k}': process.pass_hat(solved[i], k, scored[i]) for k in passes}))
  return dict(step=step, prompts=prompts, repeats=repeats, temperature=heat, top_k=top_k,
              top_p=top_p, greedy=greedy, heldout=heldout, overrides=dict(overrides or {}),
              seeds=rows)


def _changed(config, overrides):
  """The config of a run with other numbers, if they are ones that it could have been trained with.

  Raises:
    ValueError: a value that training refuses as well, or that the weights do not fit.
  """
  build.plain(config, overrides)  # refuses unknown paths
  fields, numbers = dict(ranges.leaves(config)), {}
  for path, value in overrides.items():
    old = fields.get(path)
    if not isinstance(old, (int, float)):
      raise ValueError(f'{path}={value}: only numbers can be changed, and it is {old!r}')
    if isinstance(old, int) and value != int(value):
      raise ValueError(f'{path}={value}: must be an integer')
    numbers[path] = int(value) if isinstance(old, int) else value
  changed = build.plain(config, numbers)
  check.check(changed)
  known, words = (build.actor(c).task.vocab for c in (config, changed))
  if known != words:
    raise ValueError(f'{", ".join(overrides)}: changes the words of the task, {len(known)} in '
                     f'training and {len(words)} here; the weights know the former')
  return changed


def elsewhere(folder: pathlib.Path, tests: Mapping[str, Mapping[str, float]],
              room: Mapping[str, Any] | None = None) -> dict[str, list[float]]:
  """Success of every seed where it was not trained, by one program for all tests.

  Args:
    folder: of a run.
    tests: name -> {dotted path: number}; a number that a test does not give is that of the config.
    room: dotted path -> value; changes of the config for all tests, for sizes that cannot be
      traced.

  Returns:
    name -> success [seeds] on `evaluate.prompts` prompts, in the order of the run's seeds.
  """
  config, seeds, step, state = load(folder)
  config = _changed(config, room or {})
  names = tuple(sorted({path for test in tests.values() for path in test}))
  subset, used = actors.shared(config, names)
  if used != names:
    raise ValueError(f'tests: {", ".join(sorted({*names} - {*used}))}: only fields of '
                     f'{", ".join(build.ACTOR_FIELDS)} can differ in a test')
  evaluate = actors.programs(json.dumps(subset, sort_keys=True), names)[0]
  frozen = pretrained.load(config, len(seeds))[1]
  found = {}
  for name, test in tests.items():
    values = []
    for path in names:
      value = config
      for part in path.split('.'):
        value = value[part]
      values.append(np.full(len(seeds), test.get(path, value), np.float32))
    found[name] = np.asarray(
        evaluate(state.params, state.key, step, tuple(values), frozen)[0]).tolist()
  return found
