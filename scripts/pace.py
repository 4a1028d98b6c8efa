"""How long the cells of a sweep still take, from what its workers report.

What a cell does before its first log point is mostly cloning and compilation. It is counted as it
was, and the rate of training is that of the time after: nothing is known before a second log point.
"""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ['Clock', 'left']


class Clock:
  """The log points of one cell."""

  def __init__(self):
    self._first = self._last = None  # (seconds since the cell began, share of its steps)

  def at(self, seconds: float, share: float) -> None:
    """Says that the cell is at a log point."""
    self._first, self._last = self._first or (seconds, share), (seconds, share)

  def whole(self) -> float | None:
    """Seconds of the whole cell, those before its first log point included; None if unknown."""
    if self._first is None or self._last[1] <= self._first[1]:
      return None
    (begin, done), (now, share) = self._first, self._last
    return begin + (1 - done) * (now - begin) / (share - done)


def left(reports: Sequence[Mapping[str, Any]], waiting: float) -> float | None:
  """Seconds until all cells are done; None if no cell has told yet how long it takes.

  Args:
    reports: of each worker: `cell`, its name or None, and of it `cost`, `spent` seconds and
      `whole`, the seconds that it takes in all or None; `done`, the cost of all cells that it has
      finished, and `seconds` that they took.
    waiting: cost of the cells that nobody has begun.
  """
  running = [r for r in reports if r['cell']]
  known = [(r['done'], r['seconds']) for r in reports]
  known += [(r['cost'], r['whole']) for r in running if r['whole'] is not None]
  cost = sum(cost for cost, _ in known)
  if cost <= 0:
    return None
  pace = sum(seconds for _, seconds in known) / cost
  whole = lambda r: r['cost'] * pace if r['whole'] is None else r['whole']
  own = [max(0.0, whole(r) - r['spent']) for r in running]
  return max(own + [(waiting * pace + sum(own)) / len(reports)])
