"""The progress of a run on one line: how far, how fast, how long still, and a few metrics."""

import shutil
import sys
import time
from typing import TextIO

__all__ = ['Progress']


class Progress:
  """A live line on a terminal; elsewhere a plain line every `every` seconds, the last one always.

  Rates are those of the time since the first update: what comes before it is mostly compilation, so
  that nothing is said of the time left until there is a second one.
  """

  def __init__(self, total: int, *, start: int = 0, unit: str = 'step', every: float = 10.0,
               stream: TextIO | None = None, clock=time.monotonic):
    """Starts the clock.

    Args:
      total: steps of the whole run.
      start: steps done before this process began.
      unit: what a step is called.
      every: seconds between two plain lines.
      stream: stderr by default.
      clock: () -> seconds.
    """
    self._total, self._unit, self._every, self._clock = total, unit, every, clock
    self._many = unit + ('es' if unit.endswith('ch') else 's')
    self._stream = sys.stderr if stream is None else stream
    self._live = bool(getattr(self._stream, 'isatty', lambda: False)())
    self._began = self._mark = (clock(), start, 0)  # time, step, tokens
    self._said = -float('inf')
    self._line = ''
    self._open = False  # whether a live line waits for its end

  def __enter__(self) -> 'Progress':
    return self

  def __exit__(self, kind, error, trace) -> None:
    self.close()

  def update(self, step: int, *, tokens: int = 0, shown: dict[str, float] | None = None) -> None:
    """Says that `step` steps are done.

    Args:
      step: steps done, those before `start` included.
      tokens: tokens so far in this process; 0 shows no token rate.
      shown: the few metrics to print.
    """
    now = self._clock()
    self._line = self._text(now, step, tokens, shown or {})
    if self._mark is self._began:
      self._mark = (now, step, tokens)
    if self._live:
      self._redraw()
    elif now - self._said >= self._every:
      self._plain(now)

  def stage(self, text: str) -> None:
    """Says what goes on while there are no numbers yet, such as compilation."""
    self._line = f'{self._unit} {self._began[1]}/{self._total} | {text}'
    if self._live:
      self._redraw()
    else:
      self._plain(-float('inf'))

  def note(self, text: str) -> None:
    """Prints a line of its own above the live one."""
    self._stream.write(('\r\x1b[K' if self._open else '') + text + '\n')
    if self._open:
      self._stream.write(self._line[:shutil.get_terminal_size().columns - 1])
    self._stream.flush()

  def close(self) -> None:
    """Ends the live line, or prints the last plain one if it was held back."""
    if self._open:
      self._stream.write('\n')
      self._stream.flush()
      self._open = False
    elif self._line and not self._live:
      self._plain(self._clock())
    self._line = ''

  def _redraw(self):
    width = shutil.get_terminal_size().columns - 1
    self._stream.write('\r' + self._line[:width] + '\x1b[K')
    self._stream.flush()
    self._open = True

  def _plain(self, now):
    self._stream.write(self._line + '\n')
    self._stream.flush()
    self._said = now
    self._line = ''

  def _text(self, now, step, tokens, shown):
    since, first, before = self._mark
    parts = [f'{self._unit} {step}/{self._total} {100 * step / max(self._total, 1):3.0f}%']
    seconds, steps = now - since, step - first
    if self._mark is not self._began and seconds > 0 and steps > 0:
      rate = steps / seconds
      parts.append(f'{_short(rate)} {self._many}/s')
      if tokens > before:
        parts.append(f'{_short((tokens - before) / seconds)} tokens/s')
      parts.append(f'{_duration((self._total - step) / rate)} left')
    parts += [f'{name} {value:.4g}' for name, value in shown.items()]
    return ' | '.join(parts)


def _short(x):
  """Three digits and a unit: 12.3k."""
  power = 0
  while x >= 999.5 and power < 3:
    x, power = x / 1000, power + 1
  return f'{x:.3g}{("", "k", "M", "G")[power]}'


def _duration(seconds):
  """45s, 3m05s, 2h07m, 1d03h."""
  s = max(round(seconds), 0)
  if s < 60:
    return f'{s}s'
  if s < 3600:
    return f'{s // 60}m{s % 60:02d}s'
  if s < 86400:
    return f'{s // 3600}h{s % 3600 // 60:02d}m'
  return f'{s // 86400}d{s % 86400 // 3600:02d}h'
