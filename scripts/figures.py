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
--force asks for new ones. --name=all does every experiment, each in its own folder below --workdir;
one that fails is named at the end and the others go on.
"""

import pathlib

from absl import flags

from scripts import cells
from scripts import cli
from scripts import compute
from scripts import experiment

_NAME = flags.DEFINE_string('name', None, 'Name of a folder in experiments/, or all.',
                            required=True)
_SIZE = flags.DEFINE_enum('size', 'small', experiment.SIZES,
                          'smoke: seconds; small: minutes on two cores; full: an accelerator.')
_WORKDIR = cli.folder_flag('workdir', 'Where the runs are; by default runs/NAME-SIZE.')
_OUT = cli.folder_flag('out', 'Folder for the files; made if missing.')
_PROCESSES = flags.DEFINE_integer('processes', 0, 'As in scripts.sweep.', lower_bound=0)
_RUNNER = flags.DEFINE_string('runner', 'scripts.experiment:run_cell', 'As in scripts.sweep.')
_FORCE = flags.DEFINE_bool('force', False, 'Compute again what is computed without training.')


def _trained(name, workdir, out):
  """An experiment with a sweep."""
  apart = out.resolve() != workdir.resolve()
  if apart:  # before hours of training, rather than after
    experiment.experiment(name)
    experiment.check_folder(out, 'out', name, _SIZE.value)
  code = experiment.run(name, _SIZE.value, workdir, processes=_PROCESSES.value,
                        runner=_RUNNER.value)
  if code or not apart:
    return code
  for file in experiment.FILES[:2]:
    cells.write(out / file, (workdir / file).read_text(encoding='utf-8'))
  experiment.report(name, out)
  print(f'wrote {", ".join(experiment.FILES)} to {out}')
  return 0


def _one(name, below=''):
  """Runs and draws one experiment; `below` is its folder inside --workdir and --out."""
  workdir = pathlib.Path(_WORKDIR.value or f'runs/{name}-{_SIZE.value}')
  workdir = workdir / below if _WORKDIR.value else workdir
  if _OUT.value:
    out = pathlib.Path(_OUT.value) / below
  else:
    out = workdir if _SIZE.value == 'smoke' else cli.ROOT / 'experiments' / name
  if name in compute.names():
    return compute.run(name, _SIZE.value, workdir, out, force=_FORCE.value,
                       committed=not _WORKDIR.value)
  return _trained(name, workdir, out)


def _all(names):
  """Every experiment; returns 1 if any failed."""
  failed = {}
  for name in names:
    print(f'== {name}', flush=True)
    try:
      code = _one(name, below=name)
      reason = f'exit code {code}' if code else ''
    except Exception as error:  # the others shall go on, whatever it was
      reason = f'{type(error).__name__}: {" ".join(str(error).split())}'
    if reason:
      failed[name] = reason
  print(f'{len(names) - len(failed)} of {len(names)} experiments are done')
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
