"""Families of reasoning-gym as prompts, references and a verifier. Reward is score == 1.

Many families give a little for any text (countdown 0.01), so only a full score counts. Some
evaluate the answer as Python on the way to a score, in our process or in any other that can then
say what it likes. Their answers must be nothing but what such an answer is made of, see EVALUATED;
anything else is wrong before anyone evaluates it.
"""

from collections.abc import Sequence
import re
from typing import Any

from grpo.verify import extract as extracts
from grpo.verify import score
from grpo.verify import workers

__all__ = ['EVALUATED', 'Verifier', 'entries', 'families']

MAX_LENGTH = 20_000  # characters of an answer
# Possessive (`++`), for the text is hostile: (\d+)* fails in 2^n ways on n digits and a letter.
_SUM = r'(?:\d++(?:\.\d++)?+|[-+*/() ×÷=])*+'
# A name in it is one of these or a single letter, and no name stands before a dot.
_FORMULA = (r'(?:\d++(?:\.\d++)?+(?![.\w])|(?<![\w.])(?:exp|log|ln|sin|cos|tan|asin|acos|atan|sinh|'
            r'cosh|tanh|sec|csc|cot|sqrt|pi|[A-Za-z])(?![\w.])|[-+*/^() ])*+')
# Words and lists of them: without brackets to call, dots, colons and operators nothing can happen.
_LIST = r"""(?:(?!__)[\[\], \n\w'"-])*+"""
EVALUATED = dict(
    countdown=_SUM, puzzle24=_SUM, simple_integration=_FORMULA, intermediate_integration=_FORMULA,
    polynomial_multiplication=_FORMULA, string_insertion=_LIST, spiral_matrix=_LIST,
    binary_matrix=_LIST, n_queens=_LIST)


def _library():
  try:
    import reasoning_gym
    return reasoning_gym
  except ImportError as error:
    raise ValueError("these problems need the package reasoning-gym: pip install -e '.[text]'"
                     ) from error


def families() -> list[str]:
  """Names of all families."""
  _library()
  from reasoning_gym import factory
  return sorted(factory.DATASETS)


def _check(family):
  known = families()
  if family not in known:
    raise ValueError(f'no family {family!r} in reasoning-gym; known are {", ".join(known)}')


def entries(family: str, size: int, seed: int, **options: Any) -> list[dict[str, Any]]:
  """`size` problems: dicts with `question`, `answer` and `metadata`.

  Raises ValueError for a family that does not exist and for options that it does not take.
  """
  _check(family)
  try:
    return list(_library().create_dataset(family, size=size, seed=seed, **options))
  except (AssertionError, TypeError) as error:
    raise ValueError(f'{family}: {error}') from error


class Verifier(workers.Closing):
  """(texts, references) -> Scores, where a reference is an entry of `entries`.

  Args:
    family, options: as for `entries`.
    size, seconds: processes, and time for one check.
  """

  def __init__(self, family: str, *, size: int = 2, seconds: float = 5.0, **options: Any):
    _check(family)
    self._family, self._options = family, options
    self._allowed = re.compile(EVALUATED[family]) if family in EVALUATED else None
    self._pool = workers.Pool('gym', size, seconds)

  def __call__(self, texts: Sequence[str],
               references: Sequence[dict[str, Any]]) -> list[score.Score]:
    scores, asked = {}, {}
    for i, (text, entry) in enumerate(zip(texts, references, strict=True)):
      answer = (extracts.marked(text) or text).strip()
      if not isinstance(entry, dict) or 'answer' not in entry:
        scores[i] = score.unscorable('no reference')
      elif not answer or len(answer) > MAX_LENGTH:
        scores[i] = score.wrong('no answer')
      elif self._allowed and not self._allowed.fullmatch(answer):
        scores[i] = score.wrong('not of the form of an answer')
      else:
        asked[i] = ('check', self._family, self._options, answer, entry)
    for i, reply in zip(asked, self._pool.map(list(asked.values()))):
      if reply.error in ('time', 'ended'):
        scores[i] = score.wrong(reply.error)
      elif reply.error:
        scores[i] = self._blame(f'checker raised {reply.error.split(":")[0]}', references[i])
      else:
        scores[i] = score.RIGHT if reply.value == 1.0 else score.wrong()
    return [scores[i] for i in range(len(scores))]

  def _blame(self, reason, entry):
    """Score of an answer on which the checker raised: 0 if it does not on the right one.

    Else a model could learn to be unscorable where it would be wrong.
    """
    reply = self._pool.ask('check', self._family, self._options, entry['answer'], entry)
    return score.unscorable(reason) if reply.error else score.wrong(reason)
