"""The launcher: workers over a plan of cells, and a live line about them.

Workers are processes of this machine, or whatever else a function `start` gives: scripts/slurm.py
has one whose workers are jobs of a cluster.
"""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import functools
import json
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import time

from scripts import cells
from scripts import cli
from scripts import pace
from scripts import worker

_PLAIN_EVERY = 15.0  # seconds between lines where the output is not a terminal


def order(plan: Mapping[str, cells.Cell], processes: int) -> list[list[str]]:
  """For each worker the ids in the order in which it tries them.

  Groups of cells that share compiled parts stay together as long as that does not make one worker
  longer than its share; the largest group goes first, to the worker with the least to do. Within a
  worker the longest cell starts first. The cells of others follow, those they reach last in front.
  """
  groups = {}
  for name, cell in plan.items():
    groups.setdefault(cell.group or f'{cell.task}/{cell.setting}', []).append(name)
  share = sum(c.cost for c in plan.values()) / processes
  parts = []
  for names in groups.values():
    names = sorted(names, key=lambda n: -plan[n].cost)
    part = []
    for name in names:
      if part and sum(plan[n].cost for n in part) + plan[name].cost > share * 1.001:
        parts.append(part)
        part = []
      part.append(name)
    parts.append(part)
  own = [[] for _ in range(processes)]
  load = [0.0] * processes
  for part in sorted(parts, key=lambda p: -sum(plan[n].cost for n in p)):
    k = load.index(min(load))
    own[k].extend(part)
    load[k] += sum(plan[n].cost for n in part)
  own = [sorted(names, key=lambda n: -plan[n].cost) for names in own]
  return [own[k] + [n for j in range(1, processes) for n in reversed(own[(k + j) % processes])]
          for k in range(processes)]


def variables(cores: int) -> dict[str, str]:
  """What a worker with so many cores needs to know before JAX is imported.

  A worker with one core uses one thread. Sums then have one order, so that results do not depend on
  what else the machine does.
  """
  env = dict(PYTHONPATH=os.pathsep.join(
      filter(None, [str(cli.ROOT), os.environ.get('PYTHONPATH')])))
  if cores <= 1:
    flag = '--xla_cpu_multi_thread_eigen=false'
    env['XLA_FLAGS'] = ' '.join(filter(None, [os.environ.get('XLA_FLAGS'), flag]))
  # Fresh 4 KiB pages for every program's buffers take longer to fault in than to compute on.
  env['GLIBC_TUNABLES'] = os.environ.get('GLIBC_TUNABLES', 'glibc.malloc.hugetlb=1')
  return env


def command(plan: pathlib.Path, index: int) -> list[str]:
  """The command that is a worker."""
  return [sys.executable, '-m', 'scripts.worker', str(plan), str(index)]


def local(plan: pathlib.Path, index: int, log: pathlib.Path, processes: int) -> subprocess.Popen:
  """Starts a worker as a process of this machine."""
  env = dict(os.environ) | variables(len(os.sched_getaffinity(0)) // processes)
  with open(log, 'ab') as f:
    return subprocess.Popen(command(plan, index), env=env, stdin=subprocess.DEVNULL, stdout=f,
                            stderr=f)


def clock(seconds: float) -> str:
  """'1:02:03' or '2:03'."""
  minutes, seconds = divmod(int(seconds + 0.5), 60)
  hours, minutes = divmod(minutes, 60)
  return f'{hours}:{minutes:02}:{seconds:02}' if hours else f'{minutes}:{seconds:02}'


def stop(processes) -> None:
  """Asks workers to save and end; after a minute, or a second interrupt, ends them."""
  for process in processes:
    process.terminate()
  try:
    until = time.monotonic() + 60
    for process in processes:
      process.wait(max(0.0, until - time.monotonic()))
  except (subprocess.TimeoutExpired, KeyboardInterrupt):
    for process in processes:
      process.kill()
      process.wait()


@contextlib.contextmanager
def terminable():
  """Inside, SIGTERM raises Terminated: a launcher ends as one that was interrupted.

  `timeout` and others signal twice; the second must not leave workers without a launcher.
  """
  def raise_it(signum, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise cli.Terminated

  handler = signal.signal(signal.SIGTERM, raise_it)
  try:
    yield
  finally:
    signal.signal(signal.SIGTERM, handler)


class Live:
  """One line that is redrawn on a terminal; plain lines now and then elsewhere."""

  def __init__(self, stream=None):
    self._stream = stream or sys.stderr
    self._terminal = self._stream.isatty()
    self._next = 0.0

  def show(self, line: str, *, last: bool = False) -> None:
    now = time.monotonic()
    if not last and now < self._next:
      return
    self._next = now + (0.5 if self._terminal else _PLAIN_EVERY)
    if self._terminal:
      self._stream.write(f'\r\x1b[K{line}' + ('\n' if last else ''))
    else:
      self._stream.write(line + '\n')
    self._stream.flush()


class Launcher:
  """Runs the unfinished cells of a plan in worker processes and watches them."""

  def __init__(self, plan: Mapping[str, cells.Cell], workdir: pathlib.Path, processes: int,
               runner: str, start: Callable | None = None):
    self.plan, self.workdir = plan, workdir.resolve()
    cells.set_aside(self.workdir, plan)
    self.skipped = {n for n in plan if cells.result_path(self.workdir, n).exists()}
    self.processes = max(1, min(processes, len(plan) - len(self.skipped)))
    # Failed cells are tried once a launch, so that no two may have one name, in one second either.
    self.launch = f'{time.strftime("%Y%m%d-%H%M%S")}-{os.getpid()}-{secrets.token_hex(3)}'
    self.folder = self.workdir / 'launches' / self.launch
    self.runner = runner
    self.apart = start is not None  # workers elsewhere have all cores that they can see
    self.start = start or functools.partial(local, processes=self.processes)
    self.begin = time.monotonic()
    self.past = 0        # steps by workers that have ended and were replaced
    self.broken = None   # why workers cannot even start

  def failures(self) -> dict[str, str]:
    """Id -> reason of the cells that failed in this launch."""
    out = {}
    for name in self.plan:
      if not cells.result_path(self.workdir, name).exists():
        failure = cells.read(cells.failure_path(self.workdir, name))
        if failure and failure.get('launch') == self.launch:
          out[name] = failure['reason']
    return out

  def _start(self, index):
    return self.start(self.folder / 'plan.json', index, self.folder / f'worker-{index}.log')

  def _report(self, index):
    return cells.read(self.folder / f'worker-{index}.json') or dict(
        cell=None, fraction=0, work=0, done=0, seconds=0)

  def _line(self, failed):
    """What stands on the live line."""
    reports = [self._report(k) for k in range(self.processes)]
    done = [n for n in self.plan if cells.result_path(self.workdir, n).exists()]
    settled = set(done) | set(failed)
    cost = lambda names: sum(self.plan[n].cost for n in names)
    running = {r['cell']: r['fraction'] for r in reports if r['cell'] and r['cell'] not in settled}
    ready = cost(settled) + sum(self.plan[n].cost * x for n, x in running.items())
    seconds = time.monotonic() - self.begin
    rate = (self.past + sum(r['work'] for r in reports)) / seconds
    runs = lambda names: sum(len(self.plan[n].seeds) for n in names)
    parts = [f'cells {len(done)}/{len(self.plan)}', f'runs {runs(done)}/{runs(self.plan)}',
             f'{100 * ready / cost(self.plan):.0f}%', f'{rate:.1f} steps/s',
             f'{clock(seconds)} gone']
    if waits := set(self.plan) - settled:
      left = pace.left(reports, cost(waits - set(running)))
      parts.append('cloning or compiling, time left unknown' if left is None else
                   f'{clock(left)} left')
    if failed:
      parts.append(f'{len(failed)} FAILED')
    return ' | '.join(parts)

  def _bury(self, index, code):
    """A worker died on the way: its cell fails, and another worker takes its place."""
    report = self._report(index)
    name = report['cell']
    self.past += report['work']
    (self.folder / f'worker-{index}.json').unlink(missing_ok=True)
    if name is None:
      log = self.folder / f'worker-{index}.log'
      tail = log.read_text(errors='replace').strip() if log.exists() else ''
      self.broken = tail.splitlines()[-1] if tail else f'exit code {code}'
      return None
    if not cells.result_path(self.workdir, name).exists():
      reason = f'the process ended with exit code {code}'
      if code < 0:
        reason = f'the process was ended by {signal.Signals(-code).name}'
        reason += ' (out of memory?)' if code == -signal.SIGKILL else ''
      worker.record_failure(self.workdir, name, self.launch, reason)
    return self._start(index)

  def run(self) -> dict[str, str]:
    """Returns id -> reason of the cells without a result. Interrupting it ends the workers."""
    if len(self.skipped) == len(self.plan):
      return {}
    todo = {n: c for n, c in self.plan.items() if n not in self.skipped}
    cells.write(self.folder / 'plan.json', json.dumps(dict(
        workdir=str(self.workdir), launch=self.launch, runner=self.runner,
        processes=self.processes, apart=self.apart, provenance=cells.provenance(),
        cells={n: c.to_json() for n, c in todo.items()},
        order=order(todo, self.processes)), indent=1))
    live = Live()
    workers = {}
    with terminable():
      try:
        for k in range(self.processes):
          workers[k] = self._start(k)
        while workers:
          time.sleep(0.1)
          for k, process in list(workers.items()):
            code = process.poll()
            if code is None:
              continue
            replacement = self._bury(k, code) if code != 0 else None
            if replacement is None:
              del workers[k]
            else:
              workers[k] = replacement
          live.show(self._line(self.failures()))
      finally:
        stop(workers.values())
    failed = self.failures()
    live.show(self._line(failed), last=True)
    for name in self.plan:
      if name not in failed and not cells.result_path(self.workdir, name).exists():
        failed[name] = f'not run: workers could not start: {self.broken}'
    return failed


def run(plan: Mapping[str, cells.Cell], workdir: pathlib.Path, *, processes: int, runner: str,
        start: Callable | None = None) -> dict[str, str]:
  """Runs all unfinished cells of a plan.

  Args:
    plan: id -> cell.
    workdir: of the sweep; several launchers may share one.
    processes: workers at most.
    runner: 'module:function' that runs one cell.
    start: (plan file, index, log file) -> a started worker with `poll`, `terminate`, `kill` and
      `wait` as subprocess.Popen has them; None for processes of this machine.

  Returns:
    Id -> reason, of the cells that have no result.
  """
  return Launcher(plan, workdir, processes, runner, start).run()


def make_plan(listed: Sequence[cells.Cell]) -> dict[str, cells.Cell]:
  """Id -> cell, in the order of the list. Raises UsageError for two cells with one label."""
  plan, labels = {}, set()
  for cell in listed:
    label = (cell.arm, cell.task, cell.setting)
    if label in labels:
      raise cli.UsageError(f'two cells are called {" / ".join(label)}')
    labels.add(label)
    plan[cells.cell_id(cell)] = cell
  return plan
