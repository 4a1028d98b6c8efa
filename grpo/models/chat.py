"""A conversation as tokens that only ever grows: what was sampled stays as it was sampled.

Rendering a conversation again at each turn changes the past: a template drops earlier reasoning,
trims blanks, or the tokenizer cuts the same text into other tokens, and then a model is trained on
ids that it never chose. Here the template is asked for the first prompt, and later only for what
comes *between* two turns of the model; the ids of the model's own turns are never touched.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from grpo.models import tokenizer as tokenizers

__all__ = ['Dialogue', 'between']

_MARK = 'q7Zk2vXw'  # stands for a turn of the model where a template is asked what follows it


def between(tokenizer: tokenizers.Tokenizer, messages: Sequence[Mapping[str, Any]]) -> str:
  """Text from the end of a turn of the model to the head of its next one.

  It depends on the new messages alone: the template is asked with stand-ins for all that went
  before.

  Args:
    tokenizer: of the model.
    messages: what was said in between, in roles that the template knows: where it has no tools, the
      result of one goes as a user's.

  Raises:
    ValueError: the template refuses them, or hides what the model says.
  """
  before = [dict(role='user', content='.'), dict(role='assistant', content=_MARK)]
  text = tokenizer.render([*before, *messages])
  _, found, rest = text.rpartition(_MARK)
  if not found:
    raise ValueError('the chat template does not show the turns of the model')
  return rest


class Dialogue:
  """Ids of one conversation, and which of them the model chose.

  The mask is made as tokens arrive: True for those given to `sampled`, False for all others.
  """

  def __init__(self, tokenizer: tokenizers.Tokenizer, messages: Sequence[Mapping[str, Any]], *,
               tools: Sequence[Mapping] | None = None):
    """Opens with a prompt, up to the head of the model's first turn."""
    self._tokenizer = tokenizer
    self._ids = tokenizer.encode(tokenizer.render(messages, tools=tools))
    self._mask = [False] * len(self._ids)
    self._open = True  # the model may speak

  @property
  def ids(self) -> np.ndarray:
    """All tokens so far, int32."""
    return np.asarray(self._ids, np.int32)

  @property
  def mask(self) -> np.ndarray:
    """Which of them the model chose, bool."""
    return np.asarray(self._mask, bool)

  def sampled(self, ids: Sequence[int]) -> None:
    """A turn of the model, exactly as it was sampled: with its stop token, or cut without one."""
    if not self._open:
      raise ValueError('the model has spoken: something must be said before its next turn')
    ids = [int(i) for i in ids]
    self._ids += ids
    self._mask += [True] * len(ids)
    self._open = False

  def said(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Messages that answer the model's turn; returns the new ids, which are not trained.

    The template's own end of the turn is left out where the model wrote it.
    """
    if self._open:
      raise ValueError('it is the turn of the model')
    ids = self._tokenizer.encode(between(self._tokenizer, messages))
    if ids and self._ids[-1] in self._tokenizer.stops:
      if ids[0] == self._ids[-1]:
        ids = ids[1:]
      elif ids[0] in self._tokenizer.stops:
        raise ValueError(f'the model ended its turn with token {self._ids[-1]}, the template with '
                         f'{ids[0]}')
    self._ids += ids
    self._mask += [False] * len(ids)
    self._open = True
    return ids
