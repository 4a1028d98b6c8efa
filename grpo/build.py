"""From a config to the parts of a run: the only reader of a ConfigDict.

Scalars of a config may be replaced by traced values (`overrides`), which is how one compiled
program serves a grid of learning rates, clip ranges or task knobs.
"""

import atexit
from collections.abc import Callable, Mapping
import dataclasses
import functools
import importlib
import inspect
import json
from typing import Any

import ml_collections
import optax

from grpo import decays
from grpo import slots
from grpo import tasks
from grpo import types
from grpo.models import adapters
from grpo.models import base as models
from grpo.models import hf
from grpo.models import tabular
from grpo.models import tokenizer
from grpo.models import transformer
from grpo.objective import method as methods
from grpo.rollout import branch
from grpo.rollout import compaction
from grpo.rollout import delays
from grpo.tasks import base as task_base
from grpo.tasks import interventions
from grpo.tasks import schedules
from grpo.verify import problems as sources

__all__ = ['Actor', 'Parts', 'actor', 'parts', 'plain', 'problems', 'ACTOR_FIELDS']

# Sections of a config that decide what an actor is and how it is cloned and evaluated. Arms that
# agree on them share those compiled programs and the warm start.
ACTOR_FIELDS = ('task', 'schedule', 'window', 'model', 'clone', 'evaluate')


@dataclasses.dataclass(frozen=True)
class Actor:
  """A policy in its task. Nothing here depends on the method."""
  task: task_base.Task
  layout: types.Layout
  knobs: dict[str, Any]
  policy: models.Policy
  clone_optimiser: optax.GradientTransformation
  config: Mapping[str, Any]   # the same numbers, as nested dicts
  schedule: dict[str, Callable] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Parts:
  """What a training step is made of. Plain functions and numbers; some numbers may be traced."""
  task: task_base.Task
  layout: types.Layout
  knobs: dict[str, Any]
  policy: models.Policy
  critic: models.Critic | None
  method: methods.Method
  branch: branch.Plan | None
  delay: Callable             # of rollout/delays.py
  optimiser: optax.GradientTransformation
  critic_optimiser: optax.GradientTransformation | None
  config: Mapping[str, Any]   # the same numbers, as nested dicts
  schedule: dict[str, Callable] = dataclasses.field(default_factory=dict)  # knob -> of the step


def plain(config, overrides: Mapping[str, Any] | None = None) -> dict:
  """Nested dicts of a config, with values replaced at dotted paths.

  Raises:
    ValueError: a path that the config does not have; names the nearest one.
  """
  tree = config.to_dict() if isinstance(config, ml_collections.ConfigDict) else _copy(config)
  for path, value in (overrides or {}).items():
    node, *rest = tree, *path.split('.')
    for part in rest[:-1]:
      node = node.get(part) if isinstance(node, dict) else None
    if not isinstance(node, dict) or rest[-1] not in node:
      if path.removeprefix('task.') in interventions.KNOBS and 'wrong_at' not in tree['task']:
        raise ValueError(f'config has no field {path!r}: it needs the third word of a config; '
                         'train with --config=FILE:SIZE,TASK,interventions')
      raise ValueError(f'config has no field {path!r}{slots.nearest(path, _paths(tree))}')
    node[rest[-1]] = value
  return tree


def parts(config, overrides: Mapping[str, Any] | None = None, frozen=None) -> Parts:
  """All parts of a run.

  Args:
    config: a config, or the nested dicts that `plain` makes of one.
    overrides: values at dotted paths, may be traced.
    frozen: parameters that are not trained, may be traced; see learn/pretrained.py.

  Raises:
    ValueError: unknown names, wrong arguments, or a combination that cannot work.
  """
  c = plain(config, overrides)
  task, layout, knobs, policy, critic = _world(c, c['method']['critic'], frozen)
  return Parts(
      task=task, layout=layout, knobs=knobs, policy=policy, critic=critic,
      method=slots.method(c['method'], layout),
      branch=slots.slot(branch, c['method']['branch'], 'method.branch',
                   dict(group=c['sample']['group'], turns=layout.max_turns))(),
      delay=slots.slot(delays, c['sample']['delay'], 'sample.delay'),
      optimiser=_optimiser(c, c['train']['learning_rate'], c['train']['epochs']),
      critic_optimiser=critic and _optimiser(
          c, c['method']['critic']['learning_rate'], c['method']['critic']['updates']),
      config=c, schedule=_schedule(c['schedule'], knobs))


def actor(config, overrides: Mapping[str, Any] | None = None, frozen=None) -> Actor:
  """The part of a run that arms share: reads `ACTOR_FIELDS` and the sampling temperature."""
  c = plain(config, overrides)
  task, layout, knobs, policy, _ = _world(c, dict(name='none'), frozen)
  optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(c['clone']['learning_rate']))
  return Actor(task=task, layout=layout, knobs=knobs, policy=policy, clone_optimiser=optimiser,
               config=c, schedule=_schedule(c['schedule'], knobs))


def _world(c, critic_spec, frozen):
  task, knobs = _task(c['task'], c['model'])
  if c['window']['summary']:  # in a window without a summary too, so that weights fit any window
    task = compaction.speaks(task)
  layout = _layout(task, c['window'])
  policy, critic = _models(c['model'], critic_spec, task, layout, frozen)
  return task, layout, knobs, policy, critic


def _copy(tree):
  return {k: _copy(v) for k, v in tree.items()} if isinstance(tree, Mapping) else tree


def _paths(tree, prefix=''):
  for key, value in tree.items():
    yield from _paths(value, f'{prefix}{key}.') if isinstance(value, dict) else [prefix + key]


def _task(spec, model):
  """A task and the values of its knobs."""
  name, known = spec['name'], [*tasks.__all__, *tasks.TEXT]
  if name not in known:
    raise ValueError(f'task.name: unknown name {name!r}{slots.nearest(name, known)}')
  make = importlib.import_module(f'grpo.tasks.{name}').make
  static, derived = inspect.signature(make).parameters, {}
  if name in tasks.TEXT:
    if model['name'] != 'hf':
      raise ValueError(f'task {name} is asked in text: it needs model.name=hf, got '
                       f'{model["name"]!r}')
    derived = _text(model['path'])
    if 'problems' in static:
      if 'problems' not in spec:
        raise ValueError(f'task {name}: needs task.problems, a slot of grpo/verify/problems.py')
      derived = derived | dict(problems=problems(spec))
  for key, value in spec.items():
    if key in static and not slots.fits(static[key].annotation, value):
      raise ValueError(f'task.{key}: must be {inspect.formatannotation(static[key].annotation)}, '
                       f'got {value!r}')
  task = make(**({k: v for k, v in spec.items() if k in static} | derived))
  if set(interventions.KNOBS) & set(spec):
    task = interventions.wrap(task)
  for key in spec:
    if key != 'name' and key not in static and key not in task.knobs:
      raise ValueError(f'task: {name} has no field {key!r}'
                       f'{slots.nearest(key, [*static, *task.knobs])}')
    if key in task.knobs and not slots.fits(float, spec[key]):
      raise ValueError(f'task.{key}: must be a number, got {spec[key]!r}')
  return task, {k: spec.get(k, v) for k, v in task.knobs.items()}


@functools.lru_cache(maxsize=4)
def _text(path):
  """What a task in text has to know of a model. Kept: a program asks several times."""
  return dict(tokenizer=tokenizer.load(path), size=hf.shape(path).vocab)


def problems(spec: Mapping[str, Any]) -> sources.Problems:
  """Problems of a task in text, from the config's section `task`."""
  try:
    text = json.dumps(spec['problems'], sort_keys=True)
  except TypeError as error:
    raise ValueError('task.problems: is the same for all seeds of a run, and cannot be traced'
                     ) from error
  return _problems(text)


@functools.cache
def _problems(text):
  """Kept for each choice: problems have processes that grade, which end with this one."""
  made = slots.slot(sources, json.loads(text), 'task.problems')()
  atexit.register(made.close)
  return made


def _schedule(spec, knobs):
  """Knobs that follow the step, by name."""
  for name in spec:
    if name not in knobs:
      raise ValueError(f'schedule: the task has no knob {name!r}{slots.nearest(name, knobs)}')
  return {name: slots.slot(schedules, spec[name], f'schedule.{name}') for name in sorted(spec)}


def _layout(task, window):
  """Windows of a task: one, if its longest episode fits, else as many as it takes and may take."""
  if window['turns'] < 1:
    raise ValueError(f'window.turns: must be at least 1, got {window["turns"]}')
  sizes = dict(prompt=task.prompt_len, action=task.action_len, observation=task.observation_len)
  if task.max_turns <= window['turns']:
    return types.Layout(turns=task.max_turns, **sizes)
  carry = window['carry']
  if not 1 <= carry <= window['turns']:
    raise ValueError(f'window.carry: must be in 1..window.turns ({window["turns"]}) when an '
                     f'episode of {task.max_turns} turns takes several windows, got {carry}')
  segments = -(-(task.max_turns - carry) // window['turns'])
  if window['compactions'] >= 0:
    segments = min(segments, window['compactions'] + 1)
  return types.Layout(turns=window['turns'], segments=segments, carry=carry,
                      summary=window['summary'] if segments > 1 else 0, **sizes)


def _models(spec, critic_spec, task, layout, frozen):
  """Policy and critic; the critic is None where the method has none."""
  kinds = dict(transformer=_transformer, tabular=_tabular, hf=_pretrained)
  name = spec['name']
  if name not in kinds:
    raise ValueError(f'model.name: unknown name {name!r}{slots.nearest(name, kinds)}')
  make = kinds[name]
  fields = {k: p.annotation for k, p in inspect.signature(make).parameters.items()}
  if name == 'transformer':
    fields = {f.name: f.type for f in dataclasses.fields(transformer.Shape)}
  for derived in ('vocab', 'length', 'critic', 'frozen', 'fields'):
    fields.pop(derived, None)
  given = {k: v for k, v in spec.items() if k != 'name'}
  for key, value in given.items():
    if key not in fields:
      raise ValueError(f'model: {name} has no field {key!r}{slots.nearest(key, fields)}')
    if not slots.fits(fields[key], value):
      raise ValueError(f'model.{key}: must be {inspect.formatannotation(fields[key])}, got '
                       f'{value!r}')
  return make(len(task.vocab), layout.length, critic_spec['name'] != 'none', frozen, **given)


def _transformer(vocab, length, critic, frozen, **fields):
  del length, frozen  # rotary positions have no end
  try:
    shape = transformer.Shape(vocab=vocab, **fields)
  except TypeError as error:
    raise ValueError(f'model: {error}') from error
  return transformer.policy(shape), transformer.critic(shape) if critic else None


def _pretrained(vocab, length, critic, frozen, path: str, rank: int = 0, alpha: float = 16.0,
                adapter: str = '', dtype: str = 'float32', scan: bool = False,
                remat: bool = False):
  """The model of a file: all its weights are trained, or adapters of a rank on them."""
  del vocab, length, adapter  # what a run starts from: learn/pretrained.py
  shape = hf.shape(path, rank=rank, alpha=alpha, dtype=dtype, scan=scan, remat=remat)
  if rank:
    return (adapters.policy(shape, frozen), adapters.critic(shape, frozen) if critic else None)
  return transformer.policy(shape), transformer.critic(shape) if critic else None


def _tabular(vocab, length, critic, frozen, scale: float = 0.0):
  del frozen
  return (tabular.policy(vocab, length, scale=scale),
          tabular.critic(vocab, length) if critic else None)


def _optimiser(c, learning_rate, passes):
  """AdamW after clipping the whole gradient; the rate rises over `warmup` updates, then decays.

  `passes` over the batch of a step say how many updates a run makes, where the decay asks for it.
  """
  update = c['train']
  warmup = update['warmup']
  decay = slots.slot(decays, update['decay'], 'train.decay', dict(
      length=c['steps'] * passes * update['minibatches'], start=warmup))
  rate = lambda count: decay(learning_rate * _ramp(count, warmup), count)
  return optax.chain(
      optax.clip_by_global_norm(update['clip_norm']),
      optax.scale_by_adam(b1=update['b1'], b2=update['b2'], eps=update['eps']),
      optax.add_decayed_weights(update['weight_decay']),
      optax.scale_by_learning_rate(rate))


def _ramp(count, warmup):
  if isinstance(warmup, int) and warmup == 0:
    return 1.0
  return ((count + 1) / warmup).clip(0.0, 1.0)
