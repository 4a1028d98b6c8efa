"""Flags that say where the workers of an experiment run: for scripts.sweep and scripts.figures."""

from absl import flags

from scripts import slurm

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


def asked() -> dict:
  """Keyword arguments of `experiment.run`. Raises UsageError if jobs cannot be started."""
  start = None
  if _LAUNCHER.value == 'slurm':
    start = slurm.starter(_CLUSTER.value, _MINUTES.value, _CORES.value, _GPUS.value,
                          slurm.parameters(_MORE.value))
  return dict(processes=_PROCESSES.value, runner=_RUNNER.value, start=start)


def again(processes: int) -> list[str]:
  """These flags as arguments of another command, with a number of processes of its own."""
  given = [_LAUNCHER, _CLUSTER, _MINUTES, _CORES, _GPUS, _RUNNER]
  return [f'--processes={processes}', *(f'--{holder.name}={holder.value}' for holder in given),
          *(f'--slurm={value}' for value in _MORE.value)]


def local() -> bool:
  """Whether workers are processes of this machine."""
  return _LAUNCHER.value == 'local'


def processes() -> int:
  """As asked for; 0 is one for each core."""
  return _PROCESSES.value
