"""What the sandboxes have in common: limits, failures, and how a program is called.

A sandbox runs a program and then calls one of its functions, as often as asked, each time on plain
data and for plain data (`plain.py`). No test, no expected value and no other program ever enters
it, and nothing is compared in it. So whatever a program does there, to the checker, to `==`, to the
channel it answers on: all it can send is an answer, and only the right one is worth anything.

  with box.session(program, 'f') as call:
    call(2, 3)          # what f(2, 3) returns, or raises sandbox.Failure
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
from typing import Protocol

__all__ = ['DEFAULT', 'Failure', 'Limits', 'Sandbox', 'Unsafe', 'opened']


@dataclasses.dataclass(frozen=True)
class Limits:
  """Of one program: all its calls together.

  seconds: of wall time. bubblewrap stops a program within this time; monty, which has a clock for
    each call, within twice this time.
  megabytes: of memory.
  calls: of the function under test.
  program: characters of source.
  """
  seconds: float = 2.0
  megabytes: int = 256
  calls: int = 1000
  program: int = 100_000

  def __post_init__(self):
    wrong = [f'{name}={value}' for name, value in dataclasses.asdict(self).items() if value <= 0]
    if wrong:
      raise ValueError(f'limits must be positive: {", ".join(wrong)}')
    if self.megabytes < 64:
      raise ValueError(f'megabytes={self.megabytes}: an interpreter needs 64')


DEFAULT = Limits()


class Failure(Exception):
  """Why there is no value: `kind` is one of KINDS, `detail` is text of the program's own making."""

  KINDS = ('raised', 'time', 'ended', 'not plain', 'calls', 'length', 'server')

  def __init__(self, kind: str, detail: str = ''):
    super().__init__(f'{kind}: {detail}' if detail else kind)
    self.kind = kind
    self.detail = ''.join(c if c.isprintable() else ' ' for c in detail[:200])


class Unsafe(RuntimeError):
  """The sandbox cannot be had on this machine; the message says why and what would help."""


class Sandbox(Protocol):
  """Opened once, used from any number of threads, closed at the end."""

  name: str
  limits: Limits

  def ready(self) -> None:
    """Starts what is not running. Called from a thread that lives on."""

  def session(self, program: str, entry: str) -> contextlib.AbstractContextManager[
      Callable[..., object]]:
    """Runs the program and gives its function; raises Failure if it does not run."""

  def usage(self) -> float:
    """Processor seconds so far of what is no child process of ours."""

  def close(self) -> None:
    """Ends all processes."""


@contextlib.contextmanager
def opened(box: Sandbox) -> Iterator[Sandbox]:
  """The sandbox, closed at the end of the block."""
  try:
    box.ready()
    yield box
  finally:
    box.close()
