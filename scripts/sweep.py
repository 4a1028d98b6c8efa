"""Runs an experiment: all arms, settings and seeds, on all cores; then tables and a figure.

  python -m scripts.sweep --experiment=quickstart --workdir=runs/quickstart
  python -m scripts.sweep --experiment=quickstart --size=smoke --workdir=runs/try --processes=1
  python -m scripts.sweep --experiment=methods --size=full --workdir=runs/methods --launcher=slurm \
    --processes=32 --slurm_gpus=1 --slurm_minutes=240 --slurm=slurm_partition=long

The same command continues an interrupted sweep: finished cells are skipped, failed ones are tried
again. With --launcher=slurm each worker is a job (scripts/slurm.py); several launchers may share a
workdir. A cell that fails is reported at the end and the others go on; the exit code is then 1. A
workdir belongs to one experiment and size, those of its sweep.json.
Experiments are the folders of experiments/; scripts/experiment.py says what is in one.
"""

import pathlib

from absl import flags

from scripts import cli
from scripts import experiment
from scripts import workers

flags.adopt_module_key_flags(workers)

_EXPERIMENT = flags.DEFINE_string(
    'experiment', None, 'Name of a folder in experiments/.', required=True)
_SIZE = flags.DEFINE_enum('size', 'small', experiment.SIZES,
                          'smoke: seconds; small: minutes on two cores; full: an accelerator.')
_WORKDIR = cli.folder_flag('workdir', 'Folder of the results; made if missing.', required=True)


def main(argv):
  del argv
  return experiment.run(_EXPERIMENT.value, _SIZE.value, pathlib.Path(_WORKDIR.value),
                        **workers.asked())


if __name__ == '__main__':
  cli.run(main)
