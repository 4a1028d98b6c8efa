"""Processes that check answers, each with a hard limit: none can freeze or end a run.

A checker of mathematics may think for ever about `9^9^9`, and its own time limit is an alarm
signal, which only the main thread of a process can have. Here every check runs in a process of its
own pool, and one that is late is killed and replaced.
"""

from collections.abc import Sequence
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import pickle
import queue
import subprocess
import sys
import threading
import time
from typing import Any

from grpo.verify import filters
from grpo.verify import frames

__all__ = ['Closing', 'Pool', 'Reply']

ROOT = pathlib.Path(__file__).resolve().parents[2]
START = 120.0  # seconds for the imports of a worker, on a busy machine


@dataclasses.dataclass(frozen=True)
class Reply:
  """`value` of a check, or why there is none: `error` is 'time', 'ended', or what was raised."""
  value: Any = None
  error: str = ''


class _Worker:
  """One process, started when first asked."""

  def __init__(self, arguments):
    self._arguments, self._process = arguments, None

  def _start(self):
    env = {key: os.environ[key] for key in ('PATH', 'LD_LIBRARY_PATH') if key in os.environ}
    self._process = subprocess.Popen(
        [sys.executable, '-m', 'grpo.verify.worker', *self._arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
        env=dict(env, PYTHONPATH=str(ROOT), OMP_NUM_THREADS='1'), start_new_session=True)
    try:
      frames.read(self._process.stdout.fileno(), 16, time.monotonic() + START)
    except (frames.Closed, frames.Late) as error:
      raise RuntimeError(f'no checking process: python -m grpo.verify.worker {self._arguments[0]} '
                         'does not start') from error

  def ask(self, request, seconds):
    """The reply of a check; afterwards the worker is fresh or gone."""
    try:
      if self._process is None:
        self._start()
      deadline = time.monotonic() + seconds
      frames.write(self._process.stdin.fileno(), request)
      answer = json.loads(frames.read(self._process.stdout.fileno(), 1 << 20, deadline))
    except frames.Late:
      self.close()
      return Reply(error='time')
    except frames.Closed:
      self.close()
      return Reply(error='ended')
    except BaseException:
      self.close()
      raise
    return Reply(**answer)

  def close(self):
    """Ends the process."""
    if self._process is not None:
      self._process.kill()
      self._process.wait()
      self._process.stdin.close()
      self._process.stdout.close()
      self._process = None


class Closing:
  """What is closed at the end of a `with`; of what has no `close` of its own, its `_pool`."""

  def close(self) -> None:
    self._pool.close()

  def __enter__(self):
    return self

  def __exit__(self, *error):
    self.close()


class Pool(Closing):
  """Workers for one kind of check, used from any thread.

  Args:
    kind: a key of `worker.CHECKS`.
    size: number of processes.
    seconds: of wall time for one check.
    megabytes: of memory of one process.

  Where seccomp can be had, a worker also gives up files, sockets and processes before its first
  check: a parser of mathematics is no place to have them.
  """

  def __init__(self, kind: str, size: int = 2, seconds: float = 5.0, megabytes: int = 2048):
    if size < 1 or seconds <= 0 or megabytes < 256:
      raise ValueError(f'size={size}, seconds={seconds}, megabytes={megabytes}: needs at least '
                       '1 process, some time and 256 megabytes')
    try:
      code = filters.compile_filter().hex() if sys.platform.startswith('linux') else ''
    except RuntimeError:
      code = ''
    self.confined = bool(code)
    self._seconds, self._size = seconds, size
    arguments = [kind, str(megabytes), str(math.ceil(seconds) + 30), code]
    self._workers = [_Worker(arguments) for _ in range(size)]
    self._free = queue.SimpleQueue()
    for worker in self._workers:
      self._free.put(worker)
    self._closed = threading.Event()

  def ask(self, name: str, *args: Any) -> Reply:
    """One check."""
    if self._closed.is_set():
      raise RuntimeError('the pool is closed')
    worker = self._free.get()
    try:
      return worker.ask(pickle.dumps((name, args)), self._seconds)
    finally:
      self._free.put(worker)

  def map(self, requests: Sequence[tuple]) -> list[Reply]:
    """Checks in parallel, replies in order."""
    if not requests:
      return []
    with concurrent.futures.ThreadPoolExecutor(self._size) as threads:
      return list(threads.map(lambda request: self.ask(*request), requests))

  def close(self) -> None:
    self._closed.set()
    for worker in self._workers:
      worker.close()
