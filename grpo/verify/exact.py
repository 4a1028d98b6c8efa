"""Exact match of texts, up to white space and, by default, case."""

from collections.abc import Callable

from grpo.verify import extract as extracts
from grpo.verify import score

__all__ = ['read', 'verify']


def read(reference: str) -> str:
  """The reference with white space collapsed. Raises ValueError if nothing is left."""
  if not isinstance(reference, str) or not reference.strip():
    raise ValueError(f'no reference: {reference!r}')
  return ' '.join(reference.split())


def verify(text: str, reference: str, *,
           extract: Callable[[str], str | None] = lambda text: extracts.marked(text) or text,
           fold: Callable[[str], str] = str.casefold) -> score.Score:
  """1 if the answer is the reference.

  Args:
    text: what the model wrote.
    reference: the right answer.
    extract: text -> answer or None; by default the marked one, or else the whole text.
    fold: applied to both; `str` keeps case.
  """
  try:
    want = read(reference)
  except ValueError:
    return score.unscorable('no reference')
  answer = ' '.join((extract(text) or '').split())
  if not answer:
    return score.wrong('no answer')
  return score.RIGHT if fold(answer) == fold(want) else score.wrong()
