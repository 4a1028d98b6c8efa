"""An experiment from its folder to its table: what scripts/sweep.py and scripts/figures.py share.

An experiment is a folder experiments/NAME with

  sweep.py  cells(size) -> list of cells.Cell; BASE, the arm that others are compared with; SCORE,
            a column of results.csv; and WORDS for more and less of it, if not better and worse;
            rows(results, curves) -> what is compared, if not the rows of results.csv; and NEEDS, a
            package beyond those of the project
  plot.py   figure(folder) -> a matplotlib figure, from results.csv and curves.csv in that folder
"""

from collections.abc import Callable
import functools
import importlib
import importlib.util
import json
import os
import pathlib
import re
from typing import Any

from grpo.study import plots
from grpo.study import tables
from scripts import cells
from scripts import cli
from scripts import launch
from scripts import locks

SIZES = ('smoke', 'small', 'full')
FILES = ('results.csv', 'curves.csv', 'table.md', 'figure.png')
# What the modules of an experiment must have; scripts/compute.py says what `run` is.
NEEDED = dict(sweep=('cells', 'BASE', 'SCORE'), plot=('figure',), run=('rows',))
IDENTITY = 'sweep.json'  # in a workdir: the experiment and the size that it belongs to


def run_cell(cell: cells.Cell, workdir: pathlib.Path,
             on_progress: Callable[[int, int], None]) -> dict[str, Any]:
  """Trains all seeds of a cell in one program.

  Args:
    cell: what to run.
    workdir: for checkpoints and logs of this cell; an interrupted run continues from there.
    on_progress: to be called with (steps done, steps in all) at log points.

  Returns:
    See `cells.check`.
  """
  from scripts import device  # JAX starts here, after the worker has set itself up
  device.prepare()
  from grpo.learn import actors
  from grpo.learn import loop
  from grpo.study import live

  config, seeds, cache = cells.resolve(cell), list(cell.seeds), workdir.parent / 'warm_starts'
  settings = {path: [value] * len(seeds) for path, value in sorted(cell.scalars.items())}
  # Arms that share an actor start from the same weights: the first to come makes them. Others
  # compile what does not depend on them, and then wait.
  start = actors.digest(actors.shared(config, tuple(settings))[0])
  compile_ = functools.partial(loop.prepare, config, seeds, settings=settings)
  with locks.waiting_lock(cache / f'{start}.lock', compile_):
    actors.warm_start(config, seeds, settings=settings, cache=cache)
  try:
    out = loop.run(config, seeds=seeds, settings=settings, workdir=workdir, cache=cache,
                   on_bad='freeze', audit=live.of(config, seeds, settings),
                   on_progress=lambda step, _: on_progress(step, config.steps))
  except loop.Stopped as stopped:
    raise SystemExit(128 + stopped.signum) from stopped  # saved: not a failure of the cell
  per_seed = {name: out[name] for name in (
      'rollouts', 'prompt_tokens', 'context_tokens', 'policy_flops', 'critic_flops', 'bad_step')}
  if out['clone_pass_rate'] is not None:
    per_seed['clone_pass_rate'] = out['clone_pass_rate']
  if cell.tests:
    from grpo.study import evaluation
    found = evaluation.elsewhere(workdir, cell.tests, cell.room)
    per_seed |= {f'test/{name}': success for name, success in found.items()}
  if cell.passes:
    from grpo.study import evaluation
    found = evaluation.run(workdir, prompts=config.evaluate.prompts, repeats=max(cell.passes),
                           passes=cell.passes, heldout=bool(config.evaluate.heldout))['seeds']
    per_seed |= {f'pass{sign}{k}': [row[f'pass{sign}{k}'] for row in found]
                 for sign in '@^' for k in cell.passes}
  watched = _watched(workdir / 'metrics.jsonl', cell.watch, seeds, out['steps'])
  return per_seed | watched | {
      'steps': out['steps'], 'tokens_sampled': out['sampled_tokens'],
      'tokens_trained': out['trained_tokens'],
      **{f'curve/{name}': out[name].T for name in ('success', 'reward', 'sampled')}}


def _watched(path, watch, seeds, steps):
  """Curves of logged metrics, [seeds, log points]; None where a metric was not logged."""
  from grpo.learn import sinks
  logged = {(r['seed'], r['step']): r for r in sinks.read(path)} if watch else {}
  found = {name for record in logged.values() for name in record}
  for name in watch:
    if name not in found:
      raise cli.unknown('metric to watch', name, found)
  return {f'curve/{name}': [[logged.get((seed, step), {}).get(name) for step in steps]
                            for seed in seeds] for name in watch}


def names() -> list[str]:
  """All experiments."""
  return sorted(p.parent.name for p in (cli.ROOT / 'experiments').glob('*/sweep.py'))


def experiment(name: str, part: str = 'sweep') -> Any:
  """Module `sweep` or `plot` of what is trained. Raises UsageError, with the nearest name."""
  if name not in names():
    if (cli.ROOT / 'experiments' / name / 'run.py').is_file():
      raise cli.UsageError(f'{name} is computed and not trained: python -m scripts.figures '
                           f'--name={name}')
    raise cli.unknown('experiment', name, names())
  return module(name, part)


def module(name: str, part: str) -> Any:
  """A module of an experiment that is there. Raises UsageError if it is not, or lacks a name."""
  if not (cli.ROOT / 'experiments' / name / f'{part}.py').is_file():
    raise cli.UsageError(f'experiments/{name} has no {part}.py, see CONTRIBUTING.md')
  found = importlib.import_module(f'experiments.{name}.{part}')
  missing = [key for key in NEEDED[part] if not hasattr(found, key)]
  if missing:
    raise cli.UsageError(f'experiments/{name}/{part}.py has no {", ".join(missing)}, see '
                         'CONTRIBUTING.md')
  return found


def lacks(name: str) -> str:
  """The package that an experiment needs and that is not installed, or ''.

  It is read and not imported: what is computed would bring JAX into a process that starts others.
  """
  part = 'sweep' if name in names() else 'run'
  text = (cli.ROOT / 'experiments' / name / f'{part}.py').read_text(encoding='utf-8')
  found = re.search(r"^NEEDS = '(\w+)'", text, re.MULTILINE)
  return found[1] if found and importlib.util.find_spec(found[1]) is None else ''


def report(name: str, folder: pathlib.Path) -> str:
  """Makes what is made from the CSV files of a folder: table.md and figure.png.

  Returns:
    The main table, for a terminal.
  """
  sweep = experiment(name)
  rows, curves = tables.read(folder / 'results.csv'), tables.read(folder / 'curves.csv')
  compared = sweep.rows(rows, curves) if hasattr(sweep, 'rows') else rows
  made = tables.blocks(compared, base=sweep.BASE, score=sweep.SCORE,
                       words=vars(sweep).get('WORDS', tables.WORDS))
  equal = tables.blocks(tables.equal_flops(curves, rows), base=sweep.BASE, score='success_flops')
  head = f'{name}: {sweep.SCORE}, arms against {sweep.BASE}'
  what = 'The same' if sweep.SCORE.startswith('success') else 'Success'
  cells.write(folder / 'table.md', '\n'.join([
      f'## {head}', '', tables.NOTES, '', tables.markdown(made),
      f'## {what} at equal FLOPs, those of the cheapest run of each setting', '',
      tables.markdown(equal)]))
  plots.save(experiment(name, 'plot').figure(folder), folder / 'figure.png')
  return f'{head}\n{tables.NOTES}\n\n{tables.text(made)}'


def check_folder(folder: pathlib.Path, flag: str, name: str, size: str) -> None:
  """Raises UsageError if the files of a sweep cannot go to a folder, or are not those it holds."""
  place = f'--{flag}={folder}'
  nearest = next(p for p in (folder, *folder.absolute().parents) if os.path.lexists(p))
  if not nearest.is_dir():
    raise cli.UsageError(f'{place}: {nearest} is in the way, it is not a folder')
  for file in (*FILES, 'timings.csv', IDENTITY):
    if (folder / file).is_dir():
      raise cli.UsageError(f'{place}: {folder / file} is in the way, it is a folder')
  if (folder / 'config.json').exists():
    raise cli.UsageError(f'{place} holds a run of scripts.train: choose another folder')
  if (folder / IDENTITY).exists():
    found = cells.read(folder / IDENTITY) or {}
    held = found.get('experiment'), found.get('size')
    if held == (None, None):
      raise cli.UsageError(f'{folder / IDENTITY} is unreadable: it should name experiment and size')
    if held != (name, size):
      raise cli.UsageError(f'{place} holds the sweep {held[0]} of size {held[1]}, not {name} of '
                           f'size {size}: choose another folder')


def _claim(workdir, name, size, plan):
  """Makes the workdir that of one experiment and size, or raises UsageError."""
  check_folder(workdir, 'workdir', name, size)
  try:
    with locks.waiting_lock(workdir / 'launches' / 'claim.lock'):  # two may start at one time
      _claim_alone(workdir, name, size, plan)
  except OSError as error:
    raise cli.UsageError(f'workdir {workdir} cannot be made: {error.strerror}') from error


def _claim_alone(workdir, name, size, plan):
  check_folder(workdir, 'workdir', name, size)
  if (workdir / IDENTITY).exists():
    return
  # A workdir from before there was this file: its tables may only be replaced by the same sweep.
  if (workdir / 'results.csv').exists() and not any(
      cells.result_path(workdir, cell).exists() for cell in plan):
    raise cli.UsageError(f'--workdir={workdir} holds results of another sweep than {name} of size '
                         f'{size}: choose another folder')
  cells.write(workdir / IDENTITY, json.dumps(dict(experiment=name, size=size)) + '\n')


def run(name: str, size: str, workdir: pathlib.Path, *, processes: int,
        runner: str = 'scripts.experiment:run_cell', start: Callable | None = None) -> int:
  """Runs what is missing of an experiment and reports; returns the exit code.

  `start` starts a worker, see `launch.run`; None is a process of this machine.

  Raises:
    UsageError: the workdir holds another experiment or size, a single run, or cannot be used.
  """
  base = experiment(name).BASE
  experiment(name, 'plot')  # what cannot be drawn is refused before it is trained
  plan = launch.make_plan(experiment(name).cells(size))
  arms = {cell.arm for cell in plan.values()}
  if base not in arms:
    raise cli.unknown(f'arm of {name} for its BASE', base, arms)
  _claim(workdir, name, size, plan)
  processes = processes or min(len(os.sched_getaffinity(0)), 8)
  try:
    failed = launch.run(plan, workdir, processes=processes, runner=runner, start=start)
  finally:
    done = cells.collect(workdir, plan)
  if done and (base,) not in tables.unique(tables.read(workdir / 'results.csv'), 'arm'):
    print(f'no table: no cell of {base} has finished, with which the others are compared')
  elif done:
    print(report(name, workdir))
    print(f'{workdir}: {", ".join(FILES)} (table.md also compares at equal FLOPs)')
  if failed:
    print(f'{len(failed)} of {len(plan)} cells have no result:')
    for cell, reason in failed.items():
      print(f'  {cell}: {reason}')
    print(f'logs of the workers are in {workdir / "launches"}; the same command tries them again')
  return 1 if failed else 0
