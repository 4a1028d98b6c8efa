"""Runs seeds to the end: compiles, logs, evaluates, saves, resumes.

Between two log points everything is one jitted, donated program, mapped over seeds. The host
dispatches the next stretch before it reads the numbers of the last one, and does nothing else than
log and save.
"""

import contextlib
import functools
import json
import signal

import jax
import jax.numpy as jnp
import numpy as np

from grpo import build
from grpo import check
from grpo import keys
from grpo import ranges
from grpo.learn import actors
from grpo.learn import compiling
from grpo.learn import distributed
from grpo.learn import flops
from grpo.learn import metrics as logs
from grpo.learn import pretrained
from grpo.learn import record
from grpo.learn import sharding
from grpo.learn import signals
from grpo.learn import state as states
from grpo.learn import step as steps

__all__ = ['run', 'prepare', 'Programs', 'Stopped']

AXIS = actors.AXIS


class Programs:
  """The compiled functions of one config, each traced once. Leading axis of all arrays: seeds.

  Attributes:
    parts: build.Parts with the numbers of the config.
    initial: (seeds int32 [], params or None, values, frozen) -> TrainState.
    stretch: (state, values, frozen) -> (state, metrics, note) after `log_every` steps. The state is
      donated; the note holds copies of its counters and of `bad_step`. Frozen parameters, None for
      most models, have no axis of seeds.
  """

  def __init__(self, config, names: tuple[str, ...] = ()):
    """Builds; nothing is compiled yet.

    Args:
      config: nested dicts.
      names: dotted paths of scalars that differ between the runs of the seed axis.
    """
    self.parts = build.parts(config)
    sizes = config['mesh']['data'], config['mesh']['model']
    mesh = sharding.make_mesh(*sizes) if sizes != (1, 1) else None
    place = lambda tree: tree
    if mesh is not None:
      place = lambda tree: jax.lax.with_sharding_constraint(tree, sharding.over_prompts(mesh))

    def initial(seeds, params, values, frozen=None):
      def one(seed, params, values):
        parts = build.parts(config, dict(zip(names, values)), frozen)
        return steps.initial(parts, keys.root(seed), params)
      return jax.vmap(one, axis_name=AXIS)(seeds, params, values)

    def stretch(state, values, frozen=None):
      def train(state, values):
        parts = build.parts(config, dict(zip(names, values)), frozen)
        return steps.train(parts, state, AXIS, place)

      # Mapped inside the scan: the other way round every step would be traced twice.
      body = lambda state, _: jax.vmap(train, axis_name=AXIS)(state, values)
      state, metrics = jax.lax.scan(body, state, length=config['log_every'])
      note = dict(counters=state.counters, bad_step=state.bad_step)
      return state, metrics.merge(), note

    once = compiling.options(config['model'], 0)
    often = compiling.options(config['model'], _positions(config, self.parts))
    if mesh is None:
      self.initial = jax.jit(initial, compiler_options=once)
      self.stretch = jax.jit(stretch, donate_argnums=0, compiler_options=often)
      return
    shapes = jax.eval_shape(initial, jnp.zeros([1], jnp.int32), None,
                            tuple(jnp.zeros([1]) for _ in names))
    places, whole = sharding.state_shardings(shapes, mesh, seeds=True), sharding.replicated(mesh)
    sharding.check_model(places.params, mesh)
    self.initial = jax.jit(initial, out_shardings=places, compiler_options=once)
    self.stretch = jax.jit(stretch, donate_argnums=0, out_shardings=(places, whole, whole),
                           compiler_options=often)


def _positions(config, parts) -> float:
  """Positions of a run of one seed, prompts once a group; those of a critic by its passes.

  A policy is sampled and scored and learns once an epoch, at three times the cost of a pass.
  """
  sample, critic, layout = config['sample'], parts.method.critic, parts.layout
  row = layout.prompt + sample['group'] * (layout.stream - layout.prompt)
  share = 0.0
  if parts.critic is not None:
    share = (1 + 3 * critic.updates) / (2 + 3 * config['train']['epochs'])
  return config['steps'] * sample['prompts'] * row * (1 + share)


@functools.lru_cache(maxsize=8)
def _programs(text: str, names: tuple[str, ...]) -> Programs:
  """Programs of a config, kept so that a second run of it in this process compiles nothing."""
  return Programs(json.loads(text), names)


def prepare(config, seeds, *, settings=None) -> None:
  """Compiles the training program of `run` ahead, for who has to wait for something else."""
  names, values = actors.traced(settings)
  programs = _programs(json.dumps(build.plain(config), sort_keys=True), names)
  _trace(programs, seeds, values, *pretrained.load(config, len(seeds))).lower().compile()


def _trace(programs, seeds, values, params, frozen):
  """The training program as `run` will find it; what only its functions can refuse, they do."""
  state = programs.initial.eval_shape(np.asarray(seeds, np.int32), params, values, frozen)
  return programs.stretch.trace(state, values, frozen)


def run(config, *, seeds, settings=None, workdir=None, cache=None, sinks=(), on_progress=None,
        on_stage=lambda text: None, on_bad: str = 'stop', audit=None):
  """Trains all seeds of a config, in one program.

  A folder that holds a checkpoint of the same config is continued; the result is the same, bit for
  bit, as that of a run which was never stopped.

  Args:
    config: a config or its nested dicts.
    seeds: list of integers; one run each.
    settings: dotted path -> list of scalars, one for each seed; they replace fields of the config.
    workdir: folder for metrics.jsonl, config.json and checkpoints; None keeps nothing.
    cache: folder for warm starts; None recomputes them.
    sinks: functions (resume step or None) -> further metric sink, see learn/sinks.py.
    on_progress: called with (step, dict of numbers pooled over seeds).
    on_stage: called with what is begun before the first numbers come, as text.
    on_bad: 'stop' ends the run when a loss or gradient of any seed is not finite; 'freeze' lets the
      others go on, and the seed keeps its last good parameters to the end.
    audit: function (step, policy parameters, critic parameters or None) -> records for audit.jsonl
      of all seeds, see study/live.py; needed where `audit.every` is above 0. It is given arrays of
      the host, and called every so many steps, and at step 0.

  Returns:
    dict: 'steps' [n] of log points, 'success' and 'reward' [n, seeds] on evaluation prompts,
    'sampled' [n, seeds] success of the training rollouts, 'bad_step' (-1, or the step at which a
    seed was frozen), and per seed the counters of
    learn/state.py, 'policy_flops' and 'critic_flops'.

  Raises:
    ValueError: the config cannot work, or the folder belongs to another config.
    logs.NonFinite: a loss or gradient was not finite; the last good state is saved first.
    Stopped: SIGTERM or SIGINT; the state is saved first.
  """
  c = build.plain(config)
  settings = settings or {}
  names, values = actors.traced(settings)
  check.check(c, settings, len(seeds))
  for seed in seeds:
    if not 0 <= seed <= ranges.SEED:
      raise ValueError(f'seed {seed}: must be from 0 to {ranges.SEED}')
  every = c['audit']['every']
  if every and audit is None:
    raise ValueError(f'audit.every={every}: this run was given no audit; scripts.train makes one')
  programs = _programs(json.dumps(c, sort_keys=True), names)
  check.training(c, programs.parts.layout, names)
  given, frozen = pretrained.load(c, len(seeds))
  _trace(programs, seeds, values, given, frozen)  # all may refuse: before any file is made
  recorder = record.Recorder(c, seeds, settings, workdir, sinks)
  subset, used = actors.shared(c, names)
  evaluate = actors.programs(json.dumps(subset, sort_keys=True), used)[0]
  used_values = tuple(v for n, v in zip(names, values) if n in used)

  if c['clone']['steps']:
    on_stage('cloning the expert')
  params, clone_info = actors.warm_start(c, seeds, settings=settings, cache=cache)
  # As host arrays these may go to any mesh, also one that spans processes.
  params = logs.fetch(params) if given is None else given
  fresh = programs.initial(np.asarray(seeds, np.int32), params, values, frozen)
  del given, params
  on_stage('compiling the training program')
  with contextlib.closing(recorder), signals.Stop() as stop:
    state, history = recorder.restore(fresh)
    if not history:
      success, reward = logs.fetch(evaluate(state.params, state.key, 0, used_values, frozen))
      history = [dict(step=0, success=success.tolist(), reward=reward.tolist(),
                      sampled=success.tolist(), bad=[-1] * len(seeds), blame=None) | clone_info]
      if every:
        recorder.audit(0, audit, state)
    at, pending = history[-1]['step'], None
    first = at + c['log_every']
    if on_bad == 'stop' and _blamed(history):
      _refuse(history, seeds)
    while at < c['steps'] and not distributed.agree(bool(stop)):
      state, metrics, note = programs.stretch(state, values, frozen)
      at += c['log_every']
      if at == first:
        on_stage(f'training; the first numbers are those of step {at}')
      scores = evaluate(state.params, state.key, at, used_values, frozen)
      if pending is not None:
        history.append(recorder.write(*pending, on_progress))
      pending = at, (metrics, scores, note)
      if every and at % every == 0:
        recorder.audit(at, audit, state)
      if recorder.due(at) or at >= c['steps'] or (on_bad == 'stop' and _blamed(history)):
        history.append(recorder.write(*pending, on_progress))
        pending = None
        recorder.save(at, state, history)
      if on_bad == 'stop' and _blamed(history):
        if pending is not None:
          history.append(recorder.write(*pending, on_progress))
          recorder.save(at, state, history)
        _refuse(history, seeds)
    if at < c['steps']:
      if pending is not None:
        history.append(recorder.write(*pending, on_progress))
        recorder.save(at, state, history)
      raise Stopped(at, stop.signum or signal.SIGTERM)
  return _result(programs, c, history, state)


class Stopped(RuntimeError):
  """A signal asked the run to end, and it was saved first. `step`, `signum`."""

  def __init__(self, step: int, signum: int):
    super().__init__(f'stopped at step {step} and saved; the same command continues')
    self.step, self.signum = step, signum


def _blamed(history) -> bool:
  """Whether a loss or gradient was not finite."""
  return history[-1]['blame'] is not None


def _refuse(history, seeds):
  """Raises for the first seed whose loss or gradient was not finite."""
  point = next(p for p in history if p['blame'] is not None)
  for seed, step, metric in zip(seeds, point['bad'], point['blame'], strict=True):
    if step >= 0:
      raise logs.NonFinite(step, f'{metric} of seed {seed}')


def _result(programs, c, history, state):
  """What `run` returns, as NumPy arrays and lists."""
  each = [states.values(x) for x in logs.fetch(state.counters)]
  consumed = {name: [x[name] for x in each] for name in states.COUNTERS}
  costs = [flops.spent(programs.parts, x, c) for x in each]
  return dict(
      steps=[point['step'] for point in history],
      **{k: np.asarray([point[k] for point in history]) for k in ('success', 'reward', 'sampled')},
      **consumed, bad_step=history[-1]['bad'],
      policy_flops=[x[0] for x in costs], critic_flops=[x[1] for x in costs],
      clone_pass_rate=history[0].get('clone_pass_rate'))
