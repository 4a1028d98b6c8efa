"""A Python subset in a box: pydantic-monty, an interpreter in Rust, in worker processes of its own.

Fast (a program costs no process), needs no privileges and runs where pip does. It has
no files, sockets, processes or threads to give away; classes, comprehensions and a small part of
the standard library work, `yield`, inheritance, `heapq` and much else do not. A program that needs
them fails here.
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import itertools
import os
import time

from grpo.verify import plain
from grpo.verify import probe
from grpo.verify import sandbox

__all__ = ['Monty']

GRACE = 1.0      # seconds over its limit until a worker that does not stop by itself is killed
RECURSION = 400  # frames; the interpreter's own stack bears it
ENTRY = '{entry}(*verify_args, **verify_kwargs)'


class Monty:
  """See `sandbox.Sandbox`. Raises Unsafe if it is not installed or does not hold."""

  name = 'monty'

  def __init__(self, limits: sandbox.Limits = sandbox.DEFAULT, workers: int | None = None):
    try:
      import pydantic_monty
    except ImportError as error:
      raise sandbox.Unsafe('monty is not installed: pip install pydantic-monty') from error
    self.limits = dataclasses.replace(limits, seconds=max(limits.seconds, probe.SECONDS))
    self._monty = pydantic_monty
    self._workers = workers or os.cpu_count() or 1
    self._pool = None
    try:
      self.ready()
      probe.check(self)
      self.close()
      self.limits = limits
      self.ready()
    except (RuntimeError, OSError, sandbox.Failure, pydantic_monty.MontyError) as error:
      self.close()
      raise sandbox.Unsafe(f'monty: {error}') from error

  def ready(self) -> None:
    if self._pool is None:
      self._pool = self._monty.Monty(
          max_processes=self._workers, request_timeout=self.limits.seconds + GRACE,
          feed_duration_limit_grace=GRACE)
      self._pool.__enter__()

  def usage(self) -> float:
    return 0.0  # its workers are our children

  def close(self) -> None:
    if self._pool is not None:
      self._pool.__exit__(None, None, None)
      self._pool = None

  def _feed(self, session, code, **inputs):
    """The value of a snippet; raises Failure."""
    monty = self._monty
    try:
      return session.feed_run(code, inputs=inputs, print_callback=lambda stream, text: None)
    except monty.MontyCrashedError as error:
      raise sandbox.Failure('time' if error.timed_out else 'ended', str(error)) from error
    except monty.MontyRuntimeError as error:
      said = str(error)
      kind = 'time' if said.startswith('TimeoutError: feed time limit') else 'raised'
      raise sandbox.Failure(kind, said) from error
    except (monty.MontyError, ValueError, TypeError, RecursionError) as error:
      raise sandbox.Failure('raised', str(error)) from error

  @contextlib.contextmanager
  def session(self, program: str, entry: str) -> Iterator[Callable[..., object]]:
    if len(program) > self.limits.program:
      raise sandbox.Failure('length', f'{len(program)} characters')
    if not entry.isidentifier():
      raise ValueError(f'not the name of a function: {entry!r}')
    calls = itertools.count(1)
    limits = dict(max_feed_duration_secs=self.limits.seconds,
                  max_memory=self.limits.megabytes << 20, max_recursion_depth=RECURSION,
                  max_suspensions=1)
    policy = dict(sleep='zero', random_start=dict(seed=0))
    with contextlib.ExitStack() as stack:
      try:
        session = stack.enter_context(self._pool.checkout(limits=limits, os_policy=policy))
      except (self._monty.MontyError, OSError) as error:  # no program of this session did that
        raise sandbox.Failure('server', str(error)) from error
      start = time.monotonic()
      self._feed(session, program)

      def call(*args, **kwargs):
        if next(calls) > self.limits.calls:
          raise sandbox.Failure('calls', f'more than {self.limits.calls}')
        if time.monotonic() - start > self.limits.seconds:
          raise sandbox.Failure('time', f'{self.limits.seconds} s')
        args, kwargs = plain.decode(plain.encode([list(args), kwargs]))
        value = self._feed(session, ENTRY.format(entry=entry), verify_args=args,
                           verify_kwargs=kwargs)
        try:
          # The same limits, and none of monty's own types of instances and functions.
          return plain.decode(plain.encode(value))
        except plain.NotPlain as error:
          raise sandbox.Failure('not plain', str(error)) from error

      yield call
