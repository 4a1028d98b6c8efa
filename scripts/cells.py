"""Cells of an experiment: what one is, where its result lies, and the CSV files made of them.

A cell is one arm in one setting; all its seeds run in one program. The id of a cell holds a hash of
its whole config and its seeds, so a changed config is another cell and never meets an old result.
Results are written beside and renamed: a file that exists is complete. One that was damaged later
counts as not finished: `set_aside` renames it, and its cell runs again.

  WORKDIR/cells/ID.json         result; its cell is skipped by the next launch
  WORKDIR/cells/ID.failed.json  reason of the last failure; tried again by the next launch
  WORKDIR/cells/ID.lock         held (flock) by the process that runs the cell
  WORKDIR/results.csv           one row per (arm, setting, seed); nothing in it depends on the clock
  WORKDIR/curves.csv            one row per (arm, setting, seed, evaluation)
  WORKDIR/timings.csv           seconds of each cell
"""

from collections.abc import Mapping, Sequence
import contextlib
import csv
import dataclasses
import hashlib
import importlib.metadata
import io
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
from typing import Any

import ml_collections
import numpy as np

from scripts import cli
from scripts import locks

COUNTERS = ('rollouts', 'tokens_sampled', 'tokens_trained', 'policy_flops', 'critic_flops')
COLUMNS = ('experiment', 'arm', 'task', 'setting', 'horizon', 'seed', 'success_last', 'success_auc',
           'steps', *COUNTERS, 'commit', 'versions', 'config_hash')
# Overrides of size smoke, which shows that things run and nothing else: tables compile in seconds.
# They are cloned a little: without a success no group has an advantage.
TABLES = {'model': dict(name='tabular', scale=0.5), 'clone.steps': 20, 'clone.learning_rate': 0.1}
_PACKAGES = ('jax', 'flax', 'optax', 'numpy')


@dataclasses.dataclass(frozen=True)
class Cell:
  """One arm in one setting, with its seeds.

  Attributes:
    experiment, arm, task, setting: names, as they stand in tables.
    config: config file and its argument, such as 'configs/sao.py:small,horizon'.
    overrides: dotted path -> value. A value that is a dict replaces a whole slot.
    seeds: run side by side in one program; the same seeds in all arms, so that they pair.
    horizon: turns of an episode, for plots.
    cost: expected time, in any unit that is the same for all cells; the longest start first.
    group: cells of one group share compiled parts and go to one worker; '' is task and setting.
    scalars: dotted path -> number that the program takes as an argument. Cells of a group that
      differ in these alone share one compiled program; see `settings` of learn/loop.run.
    watch: metrics that curves.csv has beside the scores, such as 'length/wrong'; results.csv has
      their last values, as 'length/wrong_last'.
    tests: name -> {dotted path: number}; where else the policy is tested after the last step. One
      program takes these numbers; results.csv has the success as 'test/NAME'.
    passes: values of k; results.csv has pass@k and pass^k on `evaluate.prompts` held-out prompts.
    room: dotted path -> value; what the config of the tests has instead, such as a larger
      task.max_level. Nothing that the weights depend on.
  """
  experiment: str
  arm: str
  task: str
  setting: str
  config: str
  overrides: Mapping[str, Any]
  seeds: tuple[int, ...]
  horizon: int = 1
  cost: float = 1.0
  group: str = ''
  scalars: Mapping[str, float] = dataclasses.field(default_factory=dict)
  watch: tuple[str, ...] = ()
  tests: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
  room: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  passes: tuple[int, ...] = ()

  def to_json(self) -> dict[str, Any]:
    lists = {k: list(getattr(self, k)) for k in ('seeds', 'watch', 'passes')}
    return dataclasses.asdict(self) | lists

  @classmethod
  def from_json(cls, data: Mapping[str, Any]) -> 'Cell':
    return cls(**{**data, **{k: tuple(data[k]) for k in ('seeds', 'watch', 'passes')}})


def resolve(cell: Cell) -> ml_collections.ConfigDict:
  """The config of a cell with its overrides, locked. Raises UsageError for a bad override."""
  config = cli.load(cell.config)
  for path, value in cell.overrides.items():
    parent, _, leaf = path.rpartition('.')
    slot = isinstance(value, Mapping)
    cli.check_path(config, parent if slot and parent else path, f'{cell.arm}: ')
    node = config
    for key in filter(None, parent.split('.')):
      node = node[key]
    try:
      node[leaf] = dict(value) if slot else value
    except (TypeError, ValueError) as error:
      raise cli.UsageError(f'{cell.arm}: {path}={value!r}: {error}') from error
  for path in [*cell.scalars, *cell.room, *(p for test in cell.tests.values() for p in test)]:
    cli.check_path(config, path, f'{cell.arm}: ')
  return config.lock()


def config_hash(config: ml_collections.ConfigDict) -> str:
  """Twelve hex digits of the SHA-256 of all fields."""
  return hashlib.sha256(config.to_json(sort_keys=True).encode()).hexdigest()[:12]


def cell_id(cell: Cell) -> str:
  """Readable, unique name of a cell: it changes with any field of the config and with the seeds."""
  key = f'{config_hash(resolve(cell))} {list(cell.seeds)}'
  if cell.scalars:
    key += f' {sorted(cell.scalars.items())}'
  if cell.passes:
    key += f' {list(cell.passes)}'
  if cell.tests:
    key += f' {json.dumps([cell.tests, cell.room], sort_keys=True)}'
  name = re.sub(r'[^A-Za-z0-9_.]+', '_', f'{cell.arm}-{cell.task}-{cell.setting}'.replace('-', '.'))
  return f'{name}-{hashlib.sha256(key.encode()).hexdigest()[:10]}'


def write(path: pathlib.Path, text: str) -> None:
  """Writes beside and renames, so that no file is half-written. An OSError names the file."""
  beside = path.with_name(f'.{path.name}.{os.getpid()}')
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(beside, 'w', encoding='utf-8', newline='') as f:
      f.write(text)
      f.flush()
      os.fsync(f.fileno())
    os.replace(beside, path)
  except BaseException as error:
    with contextlib.suppress(OSError):  # also of a folder that is a file, or is read-only
      beside.unlink()
    if isinstance(error, OSError):
      raise OSError(error.errno, error.strerror, str(path)) from error  # a full disk names no file
    raise


def result_path(workdir: pathlib.Path, name: str) -> pathlib.Path:
  return workdir / 'cells' / f'{name}.json'


def failure_path(workdir: pathlib.Path, name: str) -> pathlib.Path:
  return workdir / 'cells' / f'{name}.failed.json'


def settled(workdir: pathlib.Path, name: str, launch: str) -> bool:
  """Whether a cell is finished, or has failed in this launch."""
  if result_path(workdir, name).exists():
    return True
  failure = read(failure_path(workdir, name))
  return failure is not None and failure.get('launch') == launch


def read(path: pathlib.Path) -> dict[str, Any] | None:
  """Content of a JSON file; None if it is not there or holds no JSON object."""
  try:
    data = json.loads(path.read_text(encoding='utf-8'))
  except (OSError, ValueError):
    return None
  return data if isinstance(data, dict) else None


def read_result(workdir: pathlib.Path, name: str, cell: Cell) -> dict[str, Any] | None:
  """Result of a cell; None if there is none, and a line on stderr if what is there is damaged."""
  path = result_path(workdir, name)
  data = read(path)
  try:
    if data is not None:
      check(cell, data['counters'] | {f'curve/{k}': v for k, v in data['curves'].items()}
            | dict(steps=data['steps']))
      if data.keys() >= {'commit', 'versions', 'config_hash'} and 'seconds' in data['timing']:
        return data
  except (AttributeError, KeyError, TypeError, ValueError):
    pass
  if path.exists():
    print(f'warning: {path} is damaged: its cell counts as not finished', file=sys.stderr)
  return None


def set_aside(workdir: pathlib.Path, plan: Mapping[str, Cell]) -> None:
  """Renames damaged results to ID.damaged, so that those which exist are complete."""
  for name, cell in plan.items():
    path = result_path(workdir, name)
    if not path.exists() or read_result(workdir, name, cell) is not None:
      continue
    lock = locks.Lock(workdir, name)
    if lock.take():  # else someone runs it right now and will replace the file
      os.replace(path, path.with_suffix('.damaged'))
      lock.free()


def provenance() -> dict[str, str]:
  """Commit and versions, as they stand in each row."""
  def git(*arguments):
    return subprocess.run(['git', '-C', str(cli.ROOT), *arguments], capture_output=True, text=True,
                          check=True).stdout.strip()

  try:
    commit = git('rev-parse', 'HEAD')
    if git('status', '--porcelain', '--untracked-files=no'):
      commit += '+changes'
  except (OSError, subprocess.CalledProcessError):
    commit = 'unknown'
  versions = [f'python={platform.python_version()}']
  versions += [f'{p}={importlib.metadata.version(p)}' for p in _PACKAGES]
  return dict(commit=commit, versions=' '.join(versions))


def check(cell: Cell, out: Mapping[str, Any]) -> dict[str, Any]:
  """Curves and counters of a finished cell as plain lists.

  Args:
    cell: the cell that ran.
    out: `steps` [E], the steps at which the policy was evaluated; `curve/success` and other
      `curve/...` [seeds, E]; each of `COUNTERS`, and any other per-seed number, [seeds].

  Raises:
    ValueError: something is missing, has the wrong shape, or a score is not finite.
  """
  steps = [int(s) for s in out['steps']]
  tables = dict(steps=steps, curves={}, counters={})
  missing = [k for k in ('curve/success', *COUNTERS) if k not in out]
  if missing or not steps:
    raise ValueError(f'cell {cell.arm} {cell.setting}: no {", ".join(missing) or "evaluation"}')
  for name, value in sorted(out.items()):
    if name == 'steps':
      continue
    curve = name.startswith('curve/')
    shape = (len(cell.seeds), len(steps)) if curve else (len(cell.seeds),)
    array = np.asarray(value)
    if array.shape != shape:
      raise ValueError(f'cell {cell.arm} {cell.setting}: {name} is {array.shape}, not {shape}')
    tables['curves' if curve else 'counters'][name.removeprefix('curve/')] = array.tolist()
  if not np.isfinite(tables['curves']['success']).all():
    raise ValueError(f'cell {cell.arm} {cell.setting}: a success score is not finite')
  return tables


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
  text = io.StringIO()
  writer = csv.DictWriter(text, columns, lineterminator='\n')
  writer.writeheader()
  writer.writerows(rows)
  return text.getvalue()


def collect(workdir: pathlib.Path, plan: Mapping[str, Cell]) -> int:
  """Writes results.csv, curves.csv and timings.csv from the finished cells, in the plan's order.

  Without a finished cell it writes nothing: files that are there may be all that is left.

  Args:
    workdir: of the sweep.
    plan: id -> cell.

  Returns:
    The number of finished cells.
  """
  results, curves, timings, more, curve_names = [], [], [], set(), {'success': None}
  for name, cell in plan.items():
    data = read_result(workdir, name, cell)
    if data is None:
      continue
    label = dict(experiment=cell.experiment, arm=cell.arm, task=cell.task, setting=cell.setting,
                 horizon=cell.horizon)
    timings.append(dict(cell=name) | data['timing'])
    curve_names |= dict.fromkeys(data['curves'])
    for i, seed in enumerate(cell.seeds):
      success = data['curves']['success'][i]
      counters = {k: v[i] for k, v in data['counters'].items()}
      counters |= {f'{k}_last': data['curves'][k][i][-1] for k in cell.watch}
      more |= set(counters) - set(COLUMNS)
      results.append(label | counters | dict(
          seed=seed, success_last=success[-1], success_auc=sum(success) / len(success),
          steps=data['steps'][-1], commit=data['commit'], versions=data['versions'],
          config_hash=data['config_hash']))
      for e, step in enumerate(data['steps']):
        curves.append(label | dict(seed=seed, step=step)
                      | {k: v[i][e] for k, v in data['curves'].items()})
  if not timings:
    return 0
  keys = ('experiment', 'arm', 'task', 'setting', 'horizon', 'seed', 'step')
  write(workdir / 'results.csv', _csv([*COLUMNS[:-3], *sorted(more), *COLUMNS[-3:]], results))
  write(workdir / 'curves.csv', _csv([*keys, *curve_names], curves))
  write(workdir / 'timings.csv', _csv(['cell', 'seconds', 'cores'], timings))
  return len(timings)
