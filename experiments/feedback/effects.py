"""Effects of credit by turns, and how they differ between orders and between delays.

  python -m experiments.feedback.effects        prints what README.md states, from the CSV files
"""

from collections.abc import Mapping, Sequence
import pathlib
from typing import Any

import numpy as np

from experiments.feedback import sweep
from grpo.study import stats
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
OTHERS = tuple(arm for arm in sweep.ARMS if arm != sweep.BASE)


def scores(results: Sequence[Mapping[str, Any]],
           curves: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], np.ndarray]:
  """(setting, arm) -> scores in the order of seeds."""
  out = {}
  for row in sorted(sweep.rows(results, curves), key=lambda row: row['seed']):
    out.setdefault((row['setting'], row['arm']), []).append(row[sweep.SCORE])
  return {key: np.asarray(x) for key, x in out.items()}


def differences(found: Mapping[tuple[str, str], np.ndarray]) -> dict[tuple[str, str], np.ndarray]:
  """(what, arm) -> differences by seed: effects in each setting, then differences of effects."""
  first, last = sweep.ORDERS[0], sweep.ORDERS[-1]
  effect = lambda order, delay, arm: (found[f'order {order}, {delay}', arm]
                                      - found[f'order {order}, {delay}', sweep.BASE])
  made = {(f'order {order}, {delay}', arm): effect(order, delay, arm)
          for delay in sweep.DELAYS for order in sweep.ORDERS for arm in OTHERS}
  for arm in OTHERS:
    made['order', arm] = effect(first, 'at once', arm) - effect(last, 'at once', arm)
    for order in sweep.ORDERS:
      made[f'delay, order {order}', arm] = (effect(order, 'at once', arm)
                                           - effect(order, 'at the end', arm))
  return made


def lines(results: Sequence[Mapping[str, Any]], curves: Sequence[Mapping[str, Any]]) -> list[str]:
  """The table of README.md; p is after Holm over all its rows, bold where it is a claim."""
  made = differences(scores(results, curves))
  compared = {key: stats.compare([x], family=len(made)) for key, x in made.items()}
  adjusted = dict(zip(compared, stats.holm([c.p for c in compared.values()]), strict=True))
  whats = list(dict.fromkeys(what for what, _ in made))
  out = [f'| effect | {" | ".join(f"`{arm}`" for arm in OTHERS)} |', '|---' * 5 + '|']
  for what in whats:
    cells = [_cell(compared[what, arm], adjusted[what, arm]) for arm in OTHERS]
    out.append(f'| {what} | {" | ".join(cells)} |')
  return out


def means(results: Sequence[Mapping[str, Any]], curves: Sequence[Mapping[str, Any]]) -> list[str]:
  """The other table of README.md: means over seeds of the score and of the last reward."""
  found, last = scores(results, curves), {}
  steps = max(c['step'] for c in curves)
  for c in curves:
    if c['step'] == steps:
      last.setdefault((c['setting'], c['arm']), []).append(c['reward'])
  out = [f'| gain (reward after the last step) | {" | ".join(f"`{a}`" for a in sweep.ARMS)} |',
         '|---' * 6 + '|']
  for delay in sweep.DELAYS:
    for order in sweep.ORDERS:
      key = f'order {order}, {delay}'
      cells = [f'{found[key, a].mean():.3f} ({np.mean(last[key, a]):.3f})' for a in sweep.ARMS]
      out.append(f'| {key} | {" | ".join(cells)} |')
  return out


def _cell(comparison, p):
  """Difference and interval; bold where it is a claim."""
  d = comparison.difference
  if comparison.visible == 0.0 and d.point == 0.0:
    return '0, every seed'
  text = f'{d.point:+.3f} [{d.low:+.3f}, {d.high:+.3f}]'
  return text if stats.verdict(comparison, p) == 'not distinguishable' else f'**{text}**'


if __name__ == '__main__':
  files = [tables.read(HERE / name) for name in ('results.csv', 'curves.csv')]
  print('\n'.join([*means(*files), '', *lines(*files)]))
