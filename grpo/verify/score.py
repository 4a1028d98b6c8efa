"""What a verifier says: a score, or that there is none and why.

A verifier is a function (text, reference) -> Score; a batch of it is a function (texts, references)
-> list of Scores in the same order. `value` is None where nothing can be said: a reference that is
missing or unreadable, or a checker that failed. That is not 0: a zero is a claim about the answer,
and a group with such zeros would teach the model from a fault of the data. An answer that is
missing, malformed or too slow to check is the model's doing and gets 0.
"""

import collections
from collections.abc import Callable, Sequence
import dataclasses
from typing import Any

import numpy as np

__all__ = ['Score', 'RIGHT', 'each', 'readable', 'require', 'tally', 'unscorable', 'values',
           'wrong']


@dataclasses.dataclass(frozen=True)
class Score:
  """`value` in [0, 1], or None for unscorable; `reason` is short, and is what `tally` counts."""
  value: float | None
  reason: str


RIGHT = Score(1.0, 'right')


def wrong(reason: str = 'wrong') -> Score:
  return Score(0.0, reason)


def unscorable(reason: str) -> Score:
  return Score(None, reason)


def each(verify: Callable[[str, Any], Score]) -> Callable[[Sequence[str], Sequence[Any]],
                                                          list[Score]]:
  """The batch of a verifier. One that raises is unscorable, and says what it raised."""
  def batch(texts, references):
    scores = []
    for text, reference in zip(texts, references, strict=True):
      try:
        scores.append(verify(text, reference))
      except Exception as error:
        scores.append(unscorable(f'checker raised {type(error).__name__}'))
    return scores
  return batch


def readable(read: Callable[[Any], Any], references: Sequence[Any]) -> tuple[list[int],
                                                                             dict[int, str]]:
  """Indices of the references that can be read, and for the others why not. Called before training.

  Args:
    read: raises ValueError for a reference that no answer can be compared with.
    references: of a whole data set.
  """
  good, bad = [], {}
  for i, reference in enumerate(references):
    try:
      read(reference)
      good.append(i)
    except ValueError as error:
      bad[i] = str(error)
  return good, bad


def values(scores: Sequence[Score]) -> tuple[np.ndarray, np.ndarray]:
  """(float32 values with 0 where there is none, bool mask of those that are scores)."""
  valid = np.array([s.value is not None for s in scores], bool)
  return np.array([s.value or 0.0 for s in scores], np.float32), valid


def tally(scores: Sequence[Score]) -> dict[str, Any]:
  """Counts of a batch: `mean` of what is scored (None if nothing is), reasons by frequency."""
  scored = [s.value for s in scores if s.value is not None]
  return dict(mean=sum(scored) / len(scored) if scored else None, scored=len(scored),
              unscorable=len(scores) - len(scored),
              reasons=dict(collections.Counter(s.reason for s in scores).most_common()))


def require(scores: Sequence[Score], share: float = 0.5) -> None:
  """Raises RuntimeError if more than `share` of a batch is unscorable: the checker is broken."""
  count = tally(scores)
  if count['unscorable'] > share * len(scores):
    raise RuntimeError(f'{count["unscorable"]} of {len(scores)} answers could not be scored: '
                       f'{count["reasons"]}')
