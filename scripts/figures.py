"""Draws the figure of an experiment, after running whatever of it has not run yet.

  python -m scripts.figures --name=quickstart --size=smoke
  python -m scripts.figures --name=quickstart --workdir=runs/quickstart --out=paper

Results, tables and the figure go to --out: by default the folder of the experiment, but for smoke,
which shows that things run and nothing else, the workdir. A folder is only written to once all
cells have a result.
"""

import pathlib

from absl import flags

from scripts import cells
from scripts import cli
from scripts import experiment

_NAME = flags.DEFINE_string('name', None, 'Name of a folder in experiments/.', required=True)
_SIZE = flags.DEFINE_enum('size', 'small', experiment.SIZES,
                          'smoke: seconds; small: minutes on two cores; full: an accelerator.')
_WORKDIR = cli.folder_flag('workdir', 'Where the runs are; by default runs/NAME-SIZE.')
_OUT = cli.folder_flag('out', 'Folder for the files; made if missing.')
_PROCESSES = flags.DEFINE_integer('processes', 0, 'As in scripts.sweep.', lower_bound=0)
_RUNNER = flags.DEFINE_string('runner', 'scripts.experiment:run_cell', 'As in scripts.sweep.')


def _out(workdir):
  """Folder for the files."""
  if _OUT.value:
    return pathlib.Path(_OUT.value)
  return workdir if _SIZE.value == 'smoke' else cli.ROOT / 'experiments' / _NAME.value


def main(argv):
  del argv
  workdir = pathlib.Path(_WORKDIR.value or f'runs/{_NAME.value}-{_SIZE.value}')
  out = _out(workdir)
  apart = out.resolve() != workdir.resolve()
  if apart:  # before hours of training, rather than after
    experiment.experiment(_NAME.value)
    experiment.check_folder(out, 'out', _NAME.value, _SIZE.value)
  code = experiment.run(_NAME.value, _SIZE.value, workdir, processes=_PROCESSES.value,
                        runner=_RUNNER.value)
  if code or not apart:
    return code
  for name in experiment.FILES[:2]:
    cells.write(out / name, (workdir / name).read_text(encoding='utf-8'))
  experiment.report(_NAME.value, out)
  print(f'wrote {", ".join(experiment.FILES)} to {out}')
  return 0


if __name__ == '__main__':
  cli.run(main)
