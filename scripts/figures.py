"""Draws the figure of an experiment, after running whatever of it has not run yet.

  python -m scripts.figures --name=quickstart --size=smoke
  python -m scripts.figures --name=quickstart --workdir=runs/quickstart --out=paper
  python -m scripts.figures --name=snr --force
  python -m scripts.figures --name=all --size=smoke

Results, tables and the figure go to --out: by default the folder of the experiment, but for smoke,
which shows that things run and nothing else, the workdir. A folder is only written to once all
cells have a result.

An experiment with a sweep.py is trained: its workdir keeps what has run. One with a run.py is
computed: results of its size that lie in its folder are drawn as they are, unless --workdir or
--force asks for new ones. --name=all does every experiment, each in its own folder below --workdir,
as many at a time as there are cores, at most --processes; one that fails is named at the end and
the others go on. The flags --launcher and --slurm... are those of scripts.sweep, for what is
trained.
"""

import os
import pathlib
import sys

from absl import flags

from scripts import cells
from scripts import cli
from scripts import compute
from scripts import experiment
from scripts import many
from scripts import workers

flags.adopt_module_key_flags(workers)

_NAME = flags.DEFINE_string('name', None, 'Name of a folder in experiments/, or all.',
                            required=True)
_SIZE = flags.DEFINE_enum('size', 'small', experiment.SIZES,
                          'smoke: seconds; small: minutes on two cores; full: an accelerator.')
_WORKDIR = cli.folder_flag('workdir', 'Where the runs are; by default runs/NAME-SIZE.')
_OUT = cli.folder_flag('out', 'Folder for the files; made if missing.')
_FORCE = flags.DEFINE_bool('force', False, 'Compute again what is computed without training.')


def _trained(name, workdir, out):
  """An experiment with a sweep."""
  apart = out.resolve() != workdir.resolve()
  if apart:  # before hours of training, rather than after
    experiment.experiment(name)
    experiment.check_folder(out, 'out', name, _SIZE.value)
  code = experiment.run(name, _SIZE.value, workdir, **workers.asked())
  if code or not apart:
    return code
  for file in experiment.FILES[:2]:
    cells.write(out / file, (workdir / file).read_text(encoding='utf-8'))
  experiment.report(name, out)
  print(f'wrote {", ".join(experiment.FILES)} to {out}')
  return 0


def _folders(name, below=''):
  """(workdir, out) of one experiment; `below` is its folder in those that are given."""
  workdir = pathlib.Path(f'runs/{name}-{_SIZE.value}')
  if _WORKDIR.value:
    workdir = pathlib.Path(_WORKDIR.value, below)
  if _OUT.value:
    return workdir, pathlib.Path(_OUT.value, below)
  return workdir, workdir if _SIZE.value == 'smoke' else cli.ROOT / 'experiments' / name


def _one(name):
  """Runs and draws one experiment."""
  workdir, out = _folders(name)
  if name in compute.names():
    return compute.run(name, _SIZE.value, workdir, out, force=_FORCE.value,
                       committed=not _WORKDIR.value)
  return _trained(name, workdir, out)


def command(name: str, processes: int) -> list[str]:
  """The command that does one of all experiments, in its folder below --workdir and --out."""
  folders = [f'--{flag.name}={pathlib.Path(flag.value).absolute() / name}'
             for flag in (_WORKDIR, _OUT) if flag.value]
  force = ['--force'] if _FORCE.value else []
  return [sys.executable, '-m', 'scripts.figures', f'--name={name}', f'--size={_SIZE.value}',
          *folders, *force, *workers.again(processes)]


def _all(names):
  """These experiments, as many at a time as there are cores; returns 1 if any failed."""
  workers.asked()  # what each of them would refuse is refused once, before any begins
  for name in names:
    for folder, flag in zip(_folders(name, name), ('workdir', 'out')):
      experiment.check_folder(folder, flag, name, _SIZE.value)
  jobs = min(workers.processes() or 8, len(os.sched_getaffinity(0))) if workers.local() else 1
  # Those that are trained take longest: they begin, and the others fill the gaps.
  names = sorted(names, key=lambda name: (name in compute.names(), name))
  logs = pathlib.Path(_WORKDIR.value or 'runs') / 'logs'
  failed = many.run({name: command(name, 1 if workers.local() else workers.processes())
                     for name in names}, jobs, logs)
  print(f'{len(names) - len(failed)} of {len(names)} experiments are done; logs are in {logs}')
  for name, reason in failed.items():
    print(f'  {name}: {reason}')
  return 1 if failed else 0


def main(argv):
  del argv
  known = sorted({*experiment.names(), *compute.names()})
  if _NAME.value == 'all':
    lacking = {name: package for name in known if (package := experiment.lacks(name))}
    for name, package in lacking.items():
      print(f'{name} is left out: it needs the package {package}')
    return _all([name for name in known if name not in lacking])
  if _NAME.value not in known:
    raise cli.unknown('experiment', _NAME.value, [*known, 'all'])
  return _one(_NAME.value)


if __name__ == '__main__':
  cli.run(main)
