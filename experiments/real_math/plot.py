"""Draws pass@1 of a pretrained model while it trains, on held-out sums and on those of training.

Bands are Wilson intervals over the episodes of an evaluation, seeds pooled: how well the scores of
these runs are known, not how much runs differ.

  python -m experiments.real_math.plot        redraws figure.png from the CSV files beside this one
"""

import pathlib

from matplotlib.figure import Figure
import numpy as np

from experiments.real_math import sweep
from grpo.study import plots
from grpo.study import stats
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_NAMES = dict(grpo='GRPO', grpo_dis='GRPO + mask', ppo='PPO', sao='SAO')


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv and curves.csv in a folder."""
  rows, curves = tables.runs(folder, _NAMES)
  look = plots.looks([arm for arm, in tables.unique(rows, 'arm')])
  fig, axes_1N = plots.new(1, 2, width=6.0, height=2.5)
  held, own = axes_1N[0]
  for arm, style in look.items():
    steps, success, seeds = mean(curves, arm, 'success')
    low, high = stats.wilson(success, sweep.EPISODES * seeds)
    held.plot(steps, success, label=arm, **style)
    held.fill_between(steps, low, high, color=style['color'], alpha=0.18, linewidth=0)
    steps, sampled, _ = mean(curves, arm, 'sampled')
    own.plot(steps[1:], sampled[1:], label=arm, **style)
  held.set_title('held-out sums')
  held.set_ylabel('pass@1')
  own.set_title('sums trained on, while training')
  for ax in (held, own):
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel('step')
  plots.legend(fig, held)
  return fig


def mean(curves, arm, column):
  """Steps of an arm, the mean over its seeds at each, and the number of seeds."""
  points = {}
  for row in curves:
    if row['arm'] == arm:
      points.setdefault(row['step'], []).append(row[column])
  steps = sorted(points)
  return steps, np.array([np.mean(points[s]) for s in steps]), len(points[steps[0]])


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
