"""Comparisons of the predictions that are not against the base arm, paired by seed.

  python -m experiments.compaction.pairs        prints what README.md states, from results.csv
"""

from collections.abc import Mapping, Sequence
import pathlib
from typing import Any

import numpy as np

from experiments.compaction import sweep
from grpo.study import stats
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
# Arm, and what it is compared with; each in both ways of testing.
PAIRS = (('untrained', 'rollouts'), ('keep_last', 'rollouts'), ('keep_last', 'segments'),
         ('keep_last', 'untrained'), ('segments', 'rollouts'), ('ppo_token', 'ppo'),
         ('cross_rollout', 'ppo_token'), ('cross_segment', 'cross_rollout'),
         ('ppo', 'rollouts'), ('ppo_token', 'rollouts'), ('cross_rollout', 'rollouts'),
         ('cross_segment', 'rollouts'))


def scores(results: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], np.ndarray]:
  """(setting, arm) -> scores in the order of seeds."""
  out = {}
  for row in sorted(sweep.rows(results, []), key=lambda row: row['seed']):
    out.setdefault((row['setting'], row['arm']), []).append(row['score'])
  return {key: np.asarray(x) for key, x in out.items()}


def compare(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
  """A row for each pair and setting: difference, interval, p after Holm over all, verdict."""
  found = scores(results)
  rows = [dict(setting=setting, arm=arm, against=base,
               comparison=stats.compare([found[setting, arm] - found[setting, base]],
                                        family=2 * len(PAIRS)))
          for setting, *_ in sweep.TESTED for arm, base in PAIRS]
  adjusted = stats.holm([row['comparison'].p for row in rows])
  return [row | dict(p=p, verdict=stats.verdict(row['comparison'], p))
          for row, p in zip(rows, adjusted, strict=True)]


def lines(results: Sequence[Mapping[str, Any]]) -> list[str]:
  """The two tables of README.md: means over seeds of all arms and of their clones, and pairs."""
  found, settings = scores(results), [setting for setting, *_ in sweep.TESTED]
  start = {arm: np.mean([r['clone_pass_rate'] for r in results if r['arm'] == arm])
           for arm in sweep.ARMS}
  out = [f'| arm | clone | {" | ".join(settings)} |', '|---|---|---|---|']
  for arm, first in start.items():
    means = ' | '.join(f'{found[setting, arm].mean():.3f}' for setting in settings)
    out.append(f'| `{arm}` | {first:.3f} | {means} |')
  out += ['', f'| arm | against | {" | ".join(settings)} |', '|---|---|---|---|']
  rows = compare(results)
  for pair in PAIRS:
    cells = [_cell(row) for row in rows if (row['arm'], row['against']) == pair]
    out.append(f'| `{pair[0]}` | `{pair[1]}` | {" | ".join(cells)} |')
  return out


def _cell(row):
  """Difference, interval and p; bold where it is a claim."""
  d = row['comparison'].difference
  text = f'{d.point:+.3f} [{d.low:+.3f}, {d.high:+.3f}], p = {row["p"]:.3f}'
  return text if row['verdict'] == 'not distinguishable' else f'**{text}**'


if __name__ == '__main__':
  print('\n'.join(lines(tables.read(HERE / 'results.csv'))))
