"""Locks between processes that share a workdir; the kernel frees those of a process that ends."""

from collections.abc import Callable
import contextlib
import fcntl
import pathlib


@contextlib.contextmanager
def waiting_lock(path: pathlib.Path, meanwhile: Callable[[], None] = lambda: None):
  """Holds a lock file, after waiting for whoever holds it now; then `meanwhile` is called first."""
  path.parent.mkdir(parents=True, exist_ok=True)
  with open(path, 'a') as f:
    try:
      fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
      meanwhile()
      fcntl.flock(f, fcntl.LOCK_EX)
    yield


class Lock:
  """A cell's lock, held while a process runs it."""

  def __init__(self, workdir: pathlib.Path, name: str):
    path = workdir / 'cells' / f'{name}.lock'
    path.parent.mkdir(parents=True, exist_ok=True)
    self._file = open(path, 'a')

  def take(self) -> bool:
    """Whether the lock is ours now."""
    try:
      fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
      return True
    except OSError:
      self._file.close()
      return False

  def free(self) -> None:
    self._file.close()
