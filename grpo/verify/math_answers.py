r"""Mathematical equivalence by math-verify: \frac{1}{2}, 0.5 and 2/4 are one answer.

Plain numbers are compared by `numeric.py` first, which knows prices and thousands; what is equal
there is right. Everything else is parsed by math-verify as a whole expression, in a worker process.
The reference comes first, by keyword: math-verify's comparison is not symmetric.
"""

from collections.abc import Sequence
import importlib.util

from grpo.verify import extract
from grpo.verify import numeric
from grpo.verify import score
from grpo.verify import workers

__all__ = ['Verifier']

MAX_LENGTH = 2000  # characters of an answer; a longer one is no answer


def _latex(text):
  """The text as one LaTeX formula, unless it has delimiters of its own."""
  text = text.strip()
  for mark in ('**', '`'):
    if text.startswith(mark) and text.endswith(mark) and len(text) > 2 * len(mark):
      text = text[len(mark):-len(mark)].strip()
  return text if '$' in text or '\\(' in text or '\\[' in text else f'${text}$'


class Verifier(workers.Closing):
  """(texts, references) -> Scores. Close it, or use it as a context.

  The answer is the marked one (`extract.marked`), or else the whole text: a sentence is not
  searched for formulas, since the last one in it need not be the answer.
  """

  def __init__(self, size: int = 2, seconds: float = 5.0):
    if importlib.util.find_spec('math_verify') is None:
      raise ValueError("this verifier needs the package math-verify: pip install -e '.[text]'")
    self._pool = workers.Pool('math', size, seconds)

  def read(self, reference: str) -> None:
    """Raises ValueError if a reference cannot be compared with."""
    if not isinstance(reference, str) or not reference.strip():
      raise ValueError(f'no reference: {reference!r}')
    if numeric.parse(reference) is None:
      reply = self._pool.ask('read', _latex(reference))
      if not reply.value:
        raise ValueError(f'unreadable reference: {reference!r} {reply.error}'.strip())

  def __call__(self, texts: Sequence[str], references: Sequence[str]) -> list[score.Score]:
    scores, asked = {}, {}
    for i, (text, reference) in enumerate(zip(texts, references, strict=True)):
      answer = (extract.marked(text) or text).strip()
      if not isinstance(reference, str) or not reference.strip():
        scores[i] = score.unscorable('no reference')
      elif not answer or len(answer) > MAX_LENGTH:
        scores[i] = score.wrong('no answer')
      elif (number := numeric.parse(answer)) and number == numeric.parse(reference):
        scores[i] = score.RIGHT
      else:
        asked[i] = ('compare', _latex(reference), _latex(answer))
    for i, reply in zip(asked, self._pool.map(list(asked.values()))):
      scores[i] = self._score(reply, references[i])
    return [scores[i] for i in range(len(scores))]

  def _score(self, reply, reference):
    """Score of a reply. Where the checker was late, ended or raised, the answer is wrong if the
    reference itself is no trouble in its place: else a model could learn to be unscorable where it
    would be wrong. A checker that always fails makes all unscorable.
    """
    if reply.error:
      kind = reply.error.split(':')[0]
      reason = kind if kind in ('time', 'ended') else f'checker raised {kind}'
      again = self._pool.ask('compare', _latex(reference), _latex(reference))
      return score.wrong(reason) if again.value == 'right' else score.unscorable(reason)
    if reply.value == 'unreadable':
      return score.unscorable('unreadable reference')
    return score.RIGHT if reply.value == 'right' else score.wrong(reply.value)
