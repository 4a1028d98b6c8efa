"""Dotted paths of a config, and which of them somebody may have meant."""

from collections.abc import Iterable
import difflib

__all__ = ['namesakes']


def namesakes(path: str, known: Iterable[str]) -> list[str]:
  """Known paths with the last word of `path`, those first that add no word, then the likest."""
  words = path.split('.')

  def far(other):
    added = len(set(other.split('.')) - set(words))
    return added, -difflib.SequenceMatcher(None, path, other).ratio(), other

  return sorted((other for other in known if other.split('.')[-1] == words[-1]), key=far)
