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
from scripts import slurm

_EXPERIMENT = flags.DEFINE_string(
    'experiment', None, 'Name of a folder in experiments/.', required=True)
_SIZE = flags.DEFINE_enum('size', 'small', experiment.SIZES,
                          'smoke: seconds; small: minutes on two cores; full: an accelerator.')
_WORKDIR = cli.folder_flag('workdir', 'Folder of the results; made if missing.', required=True)
_PROCESSES = flags.DEFINE_integer(
    'processes', 0, 'Workers: processes, each with its share of the cores, or jobs. 0: one for '
    'each core of this machine, at most 8.', lower_bound=0)
_LAUNCHER = flags.DEFINE_enum('launcher', 'local', ['local', 'slurm'], 'Where the workers run.')
_CLUSTER = flags.DEFINE_enum('slurm_cluster', 'slurm', slurm.CLUSTERS,
                             'local: jobs of --launcher=slurm run on this machine, to try them.')
_MINUTES = flags.DEFINE_integer('slurm_minutes', 60, 'Time limit of a job.', lower_bound=1)
_CORES = flags.DEFINE_integer('slurm_cpus', 1, 'Cores of a job.', lower_bound=1)
_GPUS = flags.DEFINE_integer('slurm_gpus', 0, 'Accelerators of a job.', lower_bound=0)
_MORE = flags.DEFINE_multi_string(
    'slurm', [], 'NAME=VALUE, a further parameter of submitit, such as slurm_partition=long.')
_RUNNER = flags.DEFINE_string(
    'runner', 'scripts.experiment:run_cell', 'MODULE:FUNCTION that runs one cell.')


def main(argv):
  del argv
  start = None
  if _LAUNCHER.value == 'slurm':
    start = slurm.starter(_CLUSTER.value, _MINUTES.value, _CORES.value, _GPUS.value,
                          slurm.parameters(_MORE.value))
  return experiment.run(_EXPERIMENT.value, _SIZE.value, pathlib.Path(_WORKDIR.value),
                        processes=_PROCESSES.value, runner=_RUNNER.value, start=start)


if __name__ == '__main__':
  cli.run(main)
