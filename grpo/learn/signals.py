"""A polite stop: the first SIGINT or SIGTERM sets a flag, the second one acts at once."""

import os
import signal
import sys
import threading

__all__ = ['Stop']

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
  """Context manager whose truth value says whether a signal has asked the run to end.

  The loop looks at it between log points, saves, and leaves. Handlers are restored on exit, and
  before a second signal is passed on. Outside the main thread it stays false, since only the main
  thread may set handlers.
  """

  def __init__(self):
    self.signum = None  # the signal that came, for an exit code of 128 + signum
    self._before = {}

  def __enter__(self) -> 'Stop':
    if threading.current_thread() is threading.main_thread():
      self._before = {s: signal.signal(s, self._handle) for s in _SIGNALS}
    return self

  def __exit__(self, kind, error, trace) -> None:
    self._restore()

  def __bool__(self) -> bool:
    return self.signum is not None

  def _handle(self, signum, frame):
    del frame
    if self.signum is not None:
      self._restore()
      os.kill(os.getpid(), signum)
      return
    self.signum = signum
    # os.write, not print: a handler may interrupt a print under way, which must not be re-entered.
    text = f'\n{signal.Signals(signum).name}: saving and stopping; once more to quit now\n'
    os.write(sys.__stderr__.fileno(), text.encode())

  def _restore(self):
    for signum, handler in self._before.items():
      signal.signal(signum, handler)
    self._before = {}
