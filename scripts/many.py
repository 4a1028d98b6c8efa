"""Commands side by side, each on its share of the cores, with one live line about all of them."""

from collections.abc import Mapping, Sequence
import os
import pathlib
import signal
import subprocess
import time

from scripts import launch

__all__ = ['run']


def _start(command, log, cores):
  """Starts a command on these cores only; what it prints goes to the log."""
  env = dict(os.environ) | launch.variables(len(cores))
  with open(log, 'wb') as f:
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=f, stderr=f,
                            preexec_fn=lambda: os.sched_setaffinity(0, cores))


def _why(code, log):
  """Reason of a failure: the exit code, or the signal, and the last line of the log."""
  ended = f'ended by {signal.Signals(-code).name}' if code < 0 else f'exit code {code}'
  lines = log.read_text(encoding='utf-8', errors='replace').split('\n')
  last = next((line.strip() for line in reversed(lines) if line.strip()), '')
  return f'{ended}: {last[:300]}' if last else ended


def run(commands: Mapping[str, Sequence[str]], jobs: int, logs: pathlib.Path) -> dict[str, str]:
  """Runs all commands, `jobs` at a time in the order given. Interrupting it ends them.

  Args:
    commands: name -> arguments.
    jobs: commands at a time; each has as many of this process's cores as any other.
    logs: folder of the files NAME.log; made if missing.

  Returns:
    Name -> reason, of the commands that failed.
  """
  logs.mkdir(parents=True, exist_ok=True)
  cores = sorted(os.sched_getaffinity(0))
  jobs = max(1, min(jobs, len(commands)))
  share = max(1, len(cores) // jobs)
  places = [{cores[(k * share + i) % len(cores)] for i in range(share)} for k in range(jobs)]
  waiting, running, failed, done = list(commands), {}, {}, 0
  live, begin = launch.Live(), time.monotonic()

  def line():
    gone = launch.clock(time.monotonic() - begin)
    parts = [f'{done}/{len(commands)} done', f'{gone} gone']
    if 0 < done < len(commands):
      left = (time.monotonic() - begin) * (len(commands) - done) / done
      parts.append(f'{launch.clock(left)} left')
    parts += [f'running {", ".join(running)}'] if running else []
    parts += [f'{len(failed)} FAILED'] if failed else []
    return ' | '.join(parts)

  with launch.terminable():
    try:
      while waiting or running:
        while waiting and len(running) < jobs:
          name, place = waiting.pop(0), places.pop(0)
          running[name] = _start(commands[name], logs / f'{name}.log', place), place
        live.show(line())
        time.sleep(0.1)
        for name, (process, place) in list(running.items()):
          code = process.poll()
          if code is None:
            continue
          del running[name]
          places.append(place)
          done += 1
          if code:
            failed[name] = _why(code, logs / f'{name}.log')
    finally:
      launch.stop([process for process, _ in running.values()])
  live.show(line(), last=True)
  return failed
