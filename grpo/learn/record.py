"""What a run leaves in its folder: config.json, checkpoints, and a file of lines for each log.

metrics.jsonl and audit.jsonl are the same to the byte for the same config and seeds, also after a
kill; machine.jsonl has what depends on the machine.
"""

import hashlib
import json
import os
import pathlib
import resource
import time

import jax
import numpy as np

from grpo.learn import checkpoint
from grpo.learn import distributed
from grpo.learn import metrics
from grpo.learn import sinks
from grpo.learn import state as states

__all__ = ['Recorder', 'read_json', 'write_json']


def read_json(path: pathlib.Path) -> dict:
  """The object in a JSON file. Raises ValueError, naming the file, for anything else."""
  try:
    tree = json.loads(path.read_text(encoding='utf-8'))
  except (OSError, ValueError) as error:
    raise ValueError(f'{path} cannot be read: {error}') from error
  if not isinstance(tree, dict):
    raise ValueError(f'{path} holds no JSON object')
  return tree


def write_json(path: pathlib.Path, tree) -> None:
  """Writes beside and renames, so that a kill leaves the old file or the new one."""
  beside = path.with_name(path.name + '.new')
  beside.write_text(json.dumps(tree, indent=1, sort_keys=True) + '\n', encoding='utf-8')
  os.replace(beside, path)


class Recorder:
  """Writes log points and checkpoints of a run; without a folder, only keeps the numbers."""

  def __init__(self, config, seeds, settings, workdir=None, more_sinks=()):
    """Opens or continues a folder.

    Args:
      config: nested dicts.
      seeds: list of integers.
      settings: dotted path -> values along the seed axis.
      workdir: folder, or None.
      more_sinks: functions (resume step or None) -> sink.

    Raises:
      ValueError: the folder holds a run of another config.
    """
    self._seeds, self._more = list(seeds), more_sinks
    self._root = None if workdir is None else pathlib.Path(workdir)
    self._store, self._writer, self._audits, self._paces = None, None, None, []
    self._audited = config['audit']['every']
    self._clock = time.monotonic()
    self._last = None  # (step, tokens) of the last log point
    if self._root is None:
      return
    self._main = distributed.is_main()
    try:
      self._root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
      raise ValueError(f'workdir {self._root} cannot be made: {error.strerror}') from error
    identity = dict(config=config, seeds=self._seeds,
                    settings={k: np.asarray(v).tolist() for k, v in settings.items()})
    path = self._root / 'config.json'
    self._identity = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    if path.exists():
      found = read_json(path)
      if found != json.loads(json.dumps(identity)):
        field = _difference(found, json.loads(json.dumps(identity)))
        raise ValueError(f'workdir {self._root} holds a run with another {field}: choose another '
                         'folder, or remove this one')
    elif any((self._root / 'checkpoints').glob('*')):
      raise ValueError(f'workdir {self._root} holds checkpoints, and no config.json that says '
                       'whose: put it back, or choose another folder')
    elif self._main:
      write_json(path, identity)
    self._store = checkpoint.Checkpointer(
        self._root / 'checkpoints', keep=config['checkpoint']['keep'],
        every=config['checkpoint']['every'])

  def restore(self, state):
    """The newest complete state and its history, or the given state and an empty history."""
    if self._root is None:
      return state, []
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)
    found = self._store.restore_latest(shapes)
    step, history = None, []
    if found is not None:
      step, state, meta = found
      if meta.get('identity') != self._identity or not meta.get('history'):
        raise ValueError(f'workdir {self._root}: the checkpoint of step {step} is of another '
                         'config or other seeds: choose another folder')
      history = meta['history']
    opened = []
    if self._main:
      self._check_log(step, history)
      opened = [sinks.JsonlSink(self._root / 'metrics.jsonl', resume=step)]
      opened += [make(step) for make in self._more]
      if self._audited:
        self._audits = sinks.JsonlSink(self._root / 'audit.jsonl', resume=step)
      self._paces = [sinks.JsonlSink(self._root / 'machine.jsonl', resume=step), *opened[1:]]
    self._writer = metrics.Writer(opened)
    return state, history

  def _check_log(self, step, history):
    """Refuses to go on with a log that lacks lines which were written before the checkpoint."""
    done = [point['step'] for point in history]
    wanted = {'metrics.jsonl': [s for s in done if s > 0],
              'audit.jsonl': [s for s in done if self._audited and s % self._audited == 0]}
    for name, expected in wanted.items():
      path = self._root / name
      kept = sinks.read(path) if step is not None and path.exists() else []
      there = {(record['step'], record['seed']) for record in kept if 'seed' in record}
      lost = [(s, seed) for s in expected for seed in self._seeds if (s, seed) not in there]
      if lost:
        raise ValueError(f'{path} lacks {len(lost)} lines of a run that is at step {step}, the '
                         f'first of step {lost[0][0]} and seed {lost[0][1]}: put the file back, or '
                         'choose another folder')

  def due(self, step: int) -> bool:
    """Whether a checkpoint is to be saved now."""
    return self._store is not None and self._store.due(step)

  def save(self, step: int, state, history: list[dict]) -> None:
    """Saves in the background what is needed to continue from here."""
    if self._store is not None:
      self._writer.flush()
      if self._audits is not None:
        self._audits.flush()
      self._store.save(step, state, meta=dict(history=history, identity=self._identity))

  def write(self, step: int, numbers, on_progress=None) -> dict:
    """Fetches and writes one log point; the one place where the host waits for the device.

    Args:
      step: steps done.
      numbers: (metrics, evaluation, note) on the device, all with a leading seed axis.
      on_progress: called with (step, numbers pooled over seeds).

    Returns:
      The log point for the history: step, and lists over seeds.
    """
    fetched, evaluation, note = metrics.fetch(numbers)
    each = metrics.per_seed(fetched.unpack())
    for i, values in enumerate(each):
      values |= {'success/evaluated': float(evaluation[0][i]),
                 'reward/evaluated': float(evaluation[1][i])}
    if self._writer is not None:
      for seed, values in zip(self._seeds, each):
        self._writer.write(step, values, seed=seed)
    machine = self._machine(step, note)
    for sink in self._paces:
      sink.write(dict(step=step, **machine))
    pooled = {name: float(np.mean([v[name] for v in each if name in v]))
              for name in dict.fromkeys(n for v in each for n in v)}
    if on_progress is not None:
      on_progress(step, pooled | machine)
    bad = [int(x) for x in note['bad_step']]
    found = lambda v, name: v.get(name, np.nan)  # nothing, where no episode could be scored
    column = lambda name: [x if np.isfinite(x) else None for x in (found(v, name) for v in each)]
    return dict(step=step, success=column('success/evaluated'), reward=column('reward/evaluated'),
                sampled=column('success/sampled'), bad=bad,
                blame=[_blame(v) for v in each] if max(bad) >= 0 else None)

  def audit(self, step: int, audit, state) -> None:
    """Writes what an audit of the weights finds; without a folder its maker keeps it, or nobody.

    Its time is none of the training's.
    """
    params, critic_params = metrics.fetch((state.params, state.critic_params))
    begin = time.monotonic()
    if self._root is None or self._main:
      for record in audit(step, params, critic_params):
        if self._audits is not None:
          self._audits.write(record)
    self._clock += time.monotonic() - begin

  def close(self) -> None:
    """Waits for the last save and closes the files."""
    if self._store is not None:
      self._store.close()
    if self._writer is not None:
      self._writer.close()
    if self._audits is not None:
      self._audits.close()
    for sink in self._paces[:1]:  # the others are those of the writer
      sink.close()

  def _machine(self, step, note):
    """Rates since the last log point, and memory: not in metrics.jsonl, which is reproducible."""
    now = time.monotonic()
    tokens = sum(states.values(x)['sampled_tokens'] for x in note['counters'])
    out = {'memory/host_mib': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
           'tokens/sampled': float(tokens)}
    for device in jax.local_devices()[:1]:
      if peak := (device.memory_stats() or {}).get('peak_bytes_in_use'):
        out['memory/device_mib'] = peak / 2 ** 20
    if self._last is not None and step > self._last[0]:
      seconds = max(now - self._clock, 1e-9)
      out['tokens/per_second'] = (tokens - self._last[1]) / seconds
      out['seconds/step'] = seconds / (step - self._last[0])
    self._clock, self._last = now, (step, tokens)
    return out


def _blame(values):
  """Name of the first metric of a seed that is not finite."""
  for name, value in values.items():
    if not np.isfinite(value):
      return name
  return None


def _difference(old, new, path=''):
  """Dotted path of the first value that differs."""
  if not (isinstance(old, dict) and isinstance(new, dict)):
    return path
  for key in sorted(old.keys() | new.keys()):
    if old.get(key, old) != new.get(key, new):
      return _difference(old.get(key), new.get(key), f'{path}.{key}' if path else key)
  return path
