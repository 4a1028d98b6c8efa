"""GRPO against SAO at equal rollouts, on a jitted toy and on a pretrained model, side by side.

Left: sums of `quickstart` (setting `one answer`), a decoder of one layer, eight seeds, and what
seeds say. Right: SmolLM2-135M on one-digit sums, from the results beside this file, with as many
seeds as they have; its bands are Wilson intervals over the episodes of an evaluation, which say how
well those weights are known and nothing of what another run would give. An arm without results is
not drawn, and the title says so.

  python -m experiments.real_math.bridge        redraws bridge.png
"""

import math
import pathlib

from matplotlib.figure import Figure
import numpy as np

from experiments.quickstart import plot as quickstart
from experiments.real_math import plot
from experiments.real_math import sweep
from grpo.study import plots
from grpo.study import stats
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
ARMS = dict(grpo='GRPO', sao='SAO')


def read(folder: pathlib.Path, task: str):
  """(results, curves) of the two arms in a folder, with the step counted in rollouts."""
  rows, curves = ([row for row in tables.read(folder / name) if row['task'] == task
                   and row['arm'] in ARMS] for name in ('results.csv', 'curves.csv'))
  pace = {row['arm']: row['rollouts'] / row['steps'] for row in rows}
  return rows, [row | dict(step=row['step'] * pace[row['arm']]) for row in curves]


def difference(rows, episodes: int | None = None) -> tuple[float, float, float] | None:
  """SAO minus GRPO in the last score with a 95 % interval; None where an arm is missing.

  Args:
    rows: results of one task.
    episodes: of an evaluation, where there is one seed: then the interval is that of two shares of
      so many (Newcombe 1998, Statist. Med. 17, method 10). Else it is over paired seeds.
  """
  scores = {arm: {row['seed']: row['success_last'] for row in rows if row['arm'] == arm}
            for arm in ARMS}
  seeds = sorted(set(scores['grpo']) & set(scores['sao']))
  if not seeds:
    return None
  grpo, sao = (np.array([scores[arm][seed] for seed in seeds]) for arm in ARMS)
  if len(seeds) > 1:
    found = stats.compare([sao - grpo]).difference
    return found.point, found.low, found.high
  (a, b), gap = (float(sao[0]), float(grpo[0])), float(sao[0] - grpo[0])
  (low_a, high_a), (low_b, high_b) = (stats.wilson(x, episodes) for x in (a, b))
  return (gap, gap - math.hypot(a - low_a, high_b - b), gap + math.hypot(high_a - a, b - low_b))


def _title(head, found):
  if found is None:
    return f'{head}\nno SAO arm yet'
  return f'{head}\nSAO - GRPO {found[0]:+.3f} [{found[1]:+.3f}, {found[2]:+.3f}]'


@plots.styled
def figure(tiny: pathlib.Path = quickstart.HERE, real: pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv and curves.csv in the two folders."""
  look = plots.looks(list(ARMS.values()))
  fig, ((left, right),) = plots.new(1, 2, width=6.0, height=2.6)
  rows, curves = read(tiny, 'arithmetic')
  plots.learning_curves(left, [row | dict(arm=ARMS[row['arm']]) for row in curves], look,
                        y='success')
  left.set_title(_title('one layer, sums', difference(rows)))
  rows, curves = read(real, 'chat_sums')
  for arm in dict.fromkeys(row['arm'] for row in rows):
    at, success, seeds = plot.mean(curves, arm, 'success')
    low, high = stats.wilson(success, sweep.EPISODES * seeds)
    style = look[ARMS[arm]]
    right.plot(at, success, **style)
    right.fill_between(at, low, high, color=style['color'], alpha=0.18, linewidth=0)
  right.set_title(_title('SmolLM2-135M, one-digit sums', difference(rows, sweep.EPISODES)))
  left.set_ylabel('held-out pass@1')
  for ax in (left, right):
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel('rollouts')
  plots.legend(fig, left)
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'bridge.png')
