"""Runs an experiment: all arms, settings and seeds, on all cores; then tables and a figure.

  python -m scripts.sweep --experiment=quickstart --workdir=runs/quickstart
  python -m scripts.sweep --experiment=quickstart --size=smoke --workdir=runs/try --processes=1

The same command continues an interrupted sweep: finished cells are skipped, failed ones are tried
again. A cell that fails is reported at the end and the others go on; the exit code is then 1. A
workdir belongs to one experiment and size, those of its sweep.json.
Experiments are the folders of experiments/; scripts/experiment.py says what is in one.
"""

import pathlib

from absl import flags

from scripts import cli
from scripts import experiment

_EXPERIMENT = flags.DEFINE_string(
    'experiment', None, 'Name of a folder in experiments/.', required=True)
_SIZE = flags.DEFINE_enum('size', 'small', experiment.SIZES,
                          'smoke: seconds; small: minutes on two cores; full: an accelerator.')
_WORKDIR = cli.folder_flag('workdir', 'Folder of the results; made if missing.', required=True)
_PROCESSES = flags.DEFINE_integer(
    'processes', 0, 'Worker processes; each gets its share of the cores. 0: one a core, at most 8.',
    lower_bound=0)
_LAUNCHER = flags.DEFINE_enum('launcher', 'local', ['local'], 'Where the workers run.')
_RUNNER = flags.DEFINE_string(
    'runner', 'scripts.experiment:run_cell', 'MODULE:FUNCTION that runs one cell.')


def main(argv):
  del argv
  return experiment.run(_EXPERIMENT.value, _SIZE.value, pathlib.Path(_WORKDIR.value),
                        processes=_PROCESSES.value, runner=_RUNNER.value)


if __name__ == '__main__':
  cli.run(main)
