"""Workers of a sweep as jobs of a Slurm cluster, by submitit.

Each job is a command, `python -m scripts.worker PLAN INDEX`, which takes cells that nobody has
begun. The launcher only watches: if it goes, the jobs go on, and the next launch finds what they
have finished. What is submitted is submitit's own CommandFunction, so the pickle that submitit
writes holds a list of strings; nothing here reads a pickle, also not a job's result: what a job did
is in the workdir.

Workdir and repository must be at the same path on all machines. Cells are locked by flock, so the
file system of the workdir has to support it between machines (NFS from version 4 on, Lustre with
-o flock).
"""

from collections.abc import Callable, Mapping
import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from typing import Any

from scripts import cells
from scripts import cli
from scripts import launch

CLUSTERS = ('slurm', 'local')  # local: the same jobs as processes of this machine, to try them
_ASK_EVERY = 5.0  # seconds between questions to squeue about a job
_MISSING = ("--launcher=slurm needs submitit, which is not installed: pip install 'grpo[slurm]'")


class Job:
  """A submitted job in the manner of subprocess.Popen; `poll` gives 0 once nothing is left to do.

  The state of a job arrives late, up to a minute on a busy cluster. So it ends for the launcher as
  soon as each cell of its plan is settled, and what is then still in the queue is cancelled.
  """

  def __init__(self, job: Any, plan: pathlib.Path, queued: Callable[[str], bool]):
    self._job, self._plan, self._queued = job, plan, queued
    self._ask = time.monotonic() + _ASK_EVERY
    self._gone = False
    data = json.loads(plan.read_text(encoding='utf-8'))
    self._workdir, self._launch = pathlib.Path(data['workdir']), data['launch']
    self._left = set(data['cells'])

  def poll(self) -> int | None:
    """None while it waits or runs, 0 when all cells are settled, 1 if it ended before."""
    self._left = {name for name in self._left
                  if not cells.settled(self._workdir, name, self._launch)}
    if not self._left:
      self.terminate()
      return 0
    return 1 if self._done() else None

  def _done(self) -> bool:
    """Whether it has ended, also on a cluster without accounting.

    There sacct knows no state, and to submitit a job that was killed runs for ever.
    """
    if not self._gone and time.monotonic() > self._ask:
      self._ask = time.monotonic() + _ASK_EVERY
      self._gone = not self._queued(self._job.job_id)
    return self._gone or self._job.done()

  def terminate(self) -> None:
    """Cancels it, unless it has ended."""
    if not self._done():
      self._job.cancel(check=False)

  kill = terminate

  def wait(self, timeout: float | None = None) -> None:
    """Until it has ended; without a limit not at all: the cluster ends what was cancelled."""
    until = time.monotonic() + (timeout or 0)
    while not self._done():
      if timeout is None:
        return
      if time.monotonic() > until:
        raise subprocess.TimeoutExpired('job', timeout)
      time.sleep(0.2)


def queued(name: str) -> bool:
  """False only if Slurm answers that this job neither waits nor runs."""
  try:
    done = subprocess.run(['squeue', '--noheader', f'--jobs={name}'], capture_output=True,
                          text=True, timeout=10)
  except (OSError, subprocess.TimeoutExpired):
    return True
  if done.returncode:  # a job is forgotten some minutes after its end
    return 'Invalid job id' not in done.stderr
  return bool(done.stdout.strip())


def starter(cluster: str, minutes: int, cores: int, gpus: int,
            more: Mapping[str, Any] | None = None) -> Callable:
  """A function (plan file, index, log file) -> Job, for `launch.run`.

  Args:
    cluster: one of CLUSTERS.
    minutes: time limit of a job. A cell that it cuts is continued from its checkpoint by the next
      launch.
    cores, gpus: of each job.
    more: further parameters of submitit, such as dict(slurm_partition='long').

  Raises:
    UsageError: submitit is not installed, there is no Slurm here, or a parameter is unknown.
  """
  try:
    import submitit  # only for those who ask for it
    from submitit.core import utils
  except ImportError as error:
    raise cli.UsageError(_MISSING) from error

  def executor(folder):
    try:
      made = submitit.AutoExecutor(folder=folder, cluster=cluster)
      made.update_parameters(name='grpo', timeout_min=minutes, cpus_per_task=cores,
                             gpus_per_node=gpus, **(more or {}))
    except (NameError, RuntimeError, TypeError, ValueError) as error:
      raise cli.UsageError(f'--launcher=slurm: {" ".join(str(error).split())}') from error
    return made

  with tempfile.TemporaryDirectory() as folder:  # refuses before anything is begun
    executor(pathlib.Path(folder))

  def start(plan, index, log):
    words = [f'{k}={v}' for k, v in launch.variables(cores).items()]
    # The worker takes the place of the shell, so that its parent is the job itself.
    command = ['sh', '-c', f'exec >>{shlex.quote(str(log))} 2>&1; exec "$@"', 'worker',
               'env', *words, *launch.command(plan, index)]
    with _heard():
      job = executor(plan.parent / 'jobs').submit(
          utils.CommandFunction(command, verbose=False, cwd=os.getcwd()))
    return Job(job, plan, queued if cluster == 'slurm' else lambda name: True)

  return start


@contextlib.contextmanager
def _heard():
  """Processes that start inside hear SIGINT, by which submitit cancels the jobs of this machine.

  In the background of a script the shell has it ignored, and they would inherit that. What is
  caught here, to no effect, is back at its default in them.
  """
  main = threading.current_thread() is threading.main_thread()
  if not main or signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
    yield
    return
  signal.signal(signal.SIGINT, lambda signum, frame: None)
  try:
    yield
  finally:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def parameters(texts: list[str]) -> dict[str, Any]:
  """NAME=VALUE as a dict; a value that is no JSON is a string. Raises UsageError."""
  out = {}
  for text in texts:
    name, equals, value = text.partition('=')
    if not equals or not name.isidentifier():
      raise cli.UsageError(f'--slurm={text}: needs NAME=VALUE, such as slurm_partition=long')
    try:
      out[name] = json.loads(value)
    except ValueError:
      out[name] = value
  return out
