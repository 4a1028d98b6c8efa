"""Health of a critic against exact values: where it is wrong in the episode, and if it is dead.

  explained_value   1 - mean (V - Vhat)^2 / var V: against the truth; at most 1, below 0 it is worse
                    than a constant. NaN where V does not vary: there is nothing to explain
  explained_return  1 - var(R - Vhat) / var R: what a run can see without the truth
  ceiling           1 - var(R - V) / var R: the same of the exact values; the most there is to reach
  error             root mean square of V - Vhat
  bias              mean of Vhat - V
  spread            standard deviation of Vhat over that of V
  rank              P(the better of two states gets the higher value) - P(the lower one), over pairs
                    of one batch and turn whose V differ: Kendall's tau
  dead              1 if Vhat says nothing: spread below 0.05, or nothing explained and no order
"""

import math

import numpy as np

from grpo.study import judge

__all__ = ['rows', 'measure', 'BOUNDS']

BOUNDS = dict(explained_value=(-math.inf, 1), explained_return=(-math.inf, 1), rank=(-1, 1),
              error=(0, math.inf))  # see judge.BOUNDS
_SMALL = 1e-5


def measure(value, predicted, outcome, on) -> dict[str, float]:
  """Health over some turns.

  Args:
    value, predicted: exact and predicted value before the turn, [B,N,...].
    outcome: what the episode earned from the turn on, same shape.
    on: turns that were played, bool; B batches are apart in `rank`.
  """
  v, p, r = (np.asarray(x, np.float64)[on] for x in (value, predicted, outcome))
  ratio = lambda a, b: a / b if b > _SMALL**2 else math.nan
  explained = 1 - ratio(np.mean((v - p) ** 2), v.var())
  spread, rank = ratio(p.std(), v.std()), _rank(value, predicted, on)
  dead = spread < 0.05 or (explained <= 0 and not rank > 0.1)
  return dict(
      explained_value=explained, explained_return=1 - ratio((r - p).var(), r.var()),
      ceiling=1 - ratio((r - v).var(), r.var()), error=math.sqrt(np.mean((v - p) ** 2)),
      bias=float(np.mean(p - v)), spread=spread, rank=rank,
      dead=math.nan if math.isnan(spread) else float(dead))


def _rank(value, predicted, on):
  flat = lambda x: np.asarray(x).reshape(len(x), -1)
  score = pairs = 0.0
  for v, p, here in zip(flat(value), flat(predicted), flat(on)):
    gap = np.subtract.outer(v[here], v[here])
    apart = gap > _SMALL
    score += (np.sign(np.subtract.outer(p[here], p[here])) * apart).sum()
    pairs += apart.sum()
  return score / pairs if pairs else math.nan


def rows(evidence: judge.Evidence) -> list[dict]:
  """Health over the episode, then by turn. Empty without a critic.

  Rank over the episode is the mean over turns: states of different turns do not compete.
  """
  if evidence.predicted is None:
    return []
  outcome = np.broadcast_to(evidence.success[..., None], evidence.value.shape)
  arrays = evidence.value, evidence.predicted, outcome, evidence.on
  turns = [dict(part='turn', turn=h) | measure(*(x[..., h] for x in arrays))
           for h in range(evidence.value.shape[-1]) if evidence.on[..., h].any()]
  ranks = [t['rank'] for t in turns if not math.isnan(t['rank'])]
  whole = dict(part='episode') | measure(*arrays)
  return [whole | dict(rank=float(np.mean(ranks)) if ranks else math.nan), *turns]
