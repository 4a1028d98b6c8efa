"""One worker of a sweep: takes cells from a plan until none is left. Started by scripts/launch.py.

  python -m scripts.worker PLAN.json INDEX

Nobody needs to call it: python -m scripts.sweep does.
"""

import contextlib
import importlib
import json
import os
import pathlib
import sys
import time
import traceback

from scripts import cells
from scripts import cli
from scripts import locks
from scripts import pace


def _pin(index, processes):
  """Keeps this process on its share of the cores, so that workers do not fight for them."""
  cores = sorted(os.sched_getaffinity(0))
  share = len(cores) / processes
  mine = cores[int(index * share):int((index + 1) * share)] or [cores[index % len(cores)]]
  os.sched_setaffinity(0, mine)
  return len(mine)


class Worker:
  """Runs the cells of a plan: its own first, then whatever others have not begun."""

  def __init__(self, plan, index, cores):
    self.plan, self.index, self.cores = plan, index, cores
    self.workdir = pathlib.Path(plan['workdir'])
    self.cells = {k: cells.Cell.from_json(v) for k, v in plan['cells'].items()}
    module, _, name = plan['runner'].partition(':')
    self.runner = getattr(importlib.import_module(module), name)
    self.parent = os.getppid()
    self.report_path = self.workdir / 'launches' / plan['launch'] / f'worker-{index}.json'
    self.work = 0      # steps of all runs of finished cells
    self.done, self.seconds = 0.0, 0.0  # cost of the cells with a result, and what they took
    self.begin, self.clock = 0.0, pace.Clock()  # of the cell that runs
    self.written = 0.0
    self.programs = {}

  def settled(self, name):
    """Whether a cell is finished, or has failed in this launch."""
    return cells.settled(self.workdir, name, self.plan['launch'])

  def report(self, name=None, step=0, steps=0, force=True):
    """Tells the launcher what this worker does; at most twice a second unless forced."""
    now = time.monotonic()
    if not force and now - self.written < 0.5:
      return
    self.written = now
    runs, cost = (len(self.cells[name].seeds), self.cells[name].cost) if name else (0, 0.0)
    cells.write(self.report_path, json.dumps(dict(
        cell=name, fraction=step / steps if steps else 0.0, work=self.work + step * runs, cost=cost,
        spent=now - self.begin, whole=self.clock.whole(), done=self.done, seconds=self.seconds)))

  def run(self, name):
    """Runs one cell and stores its result, or the reason why there is none."""
    cell, begin = self.cells[name], time.monotonic()
    self.begin, self.clock = begin, pace.Clock()
    last = 0
    self.report(name)

    def on_progress(step, steps):
      nonlocal last
      last = step
      self.clock.at(time.monotonic() - begin, step / steps)
      self.report(name, step, steps, force=False)
      if os.getppid() != self.parent:
        sys.exit('the launcher is gone')

    try:
      out = cells.check(cell, self.runner(cell, self.workdir / 'runs' / name, on_progress))
      last = out['steps'][-1]
      timing = dict(seconds=round(time.monotonic() - begin, 2), cores=self.cores)
      data = out | self.plan['provenance'] | dict(
          cell=cell.to_json(), config_hash=cells.config_hash(cells.resolve(cell)), timing=timing)
      cells.write(cells.result_path(self.workdir, name), json.dumps(data, indent=1) + '\n')
      cells.failure_path(self.workdir, name).unlink(missing_ok=True)
      self.done, self.seconds = self.done + cell.cost, self.seconds + timing['seconds']
    except Exception as error:  # any failure is recorded, and the other cells go on
      traceback.print_exc()
      reason = f'{type(error).__name__}: {" ".join(str(error).split())}'
      record_failure(self.workdir, name, self.plan['launch'], reason[:2000])
    self.work += last * len(cell.seeds)
    self.report()

  def program(self, name):
    """What cells that differ in numbers alone have in common; a bad cell has it with none."""
    if name not in self.programs:
      cell, config = self.cells[name], name
      with contextlib.suppress(Exception):  # it is recorded when the cell runs
        config = cells.config_hash(cells.resolve(cell))
      self.programs[name] = config, tuple(sorted(cell.scalars)), len(cell.seeds)
    return self.programs[name]

  def compiling(self, name, left):
    """Whether someone else now runs a cell that has the program of this one."""
    mine = self.program(name)
    for other in left:
      if other != name and self.program(other) == mine:
        lock = locks.Lock(self.workdir, other)
        if not lock.take():
          return True
        lock.free()
    return False

  def take(self, left):
    """(name, lock) of the next cell, or None; first of those that need no program twice."""
    for patient in (True, False):
      for name in left:
        if patient and self.compiling(name, left):
          continue
        lock = locks.Lock(self.workdir, name)
        if lock.take():
          if not self.settled(name):
            return name, lock
          lock.free()
    return None

  def loop(self):
    """Until every cell of the plan is settled, here or by anyone else."""
    while left := [n for n in self.plan['order'][self.index] if not self.settled(n)]:
      if taken := self.take(left):
        self.run(taken[0])
        taken[1].free()
      else:
        time.sleep(0.2)  # what is left is in other hands: wait, and take over if they die
      if os.getppid() != self.parent:
        sys.exit('the launcher is gone')


def record_failure(workdir: pathlib.Path, name: str, launch: str, reason: str) -> None:
  """Stores why a cell has no result."""
  cells.write(cells.failure_path(workdir, name), json.dumps(dict(launch=launch, reason=reason)))


def main(argv):
  if {'--help', '-h'} & set(argv[1:]):
    print(__doc__.strip())
    return
  if len(argv) != 3:
    cli.fail(cli.UsageError('needs PLAN.json and INDEX; python -m scripts.sweep starts it'))
  plan = json.loads(pathlib.Path(argv[1]).read_text(encoding='utf-8'))
  index = int(argv[2])
  cores = _pin(*((0, 1) if plan['apart'] else (index, plan['processes'])))
  Worker(plan, index, cores).loop()


if __name__ == '__main__':
  main(sys.argv)
