"""Draws the comparison of all methods: one row an arm, one panel a setting.

  python -m experiments.methods.plot        redraws figure.png from the CSV files beside this one
"""

import pathlib

from matplotlib.figure import Figure
import numpy as np

from experiments.methods import sweep
from grpo.study import plots
from grpo.study import stats
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_ROW = 0.125  # inches


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder. Arms stand in the order of the longest setting."""
  rows = tables.read(pathlib.Path(folder) / 'results.csv')
  settings = sorted(tables.unique(rows, 'horizon', 'task', 'setting'))
  intervals = {}
  for horizon, task, setting in settings:
    for arm, in tables.unique(rows, 'arm'):
      runs = [r[sweep.SCORE] for r in rows
              if (r['arm'], r['task'], r['setting']) == (arm, task, setting)]
      if runs:
        intervals[arm, horizon] = stats.bootstrap([np.array(runs)])
  last = settings[-1][0]
  point = lambda arm: intervals[arm, last].point if (arm, last) in intervals else -1.0
  arms = sorted((arm for arm, in tables.unique(rows, 'arm')), key=lambda a: (point(a), a))
  fig, axes_1N = plots.new(1, len(settings), width=6.8, height=0.8 + _ROW * len(arms))
  for ax, (horizon, task, setting) in zip(axes_1N[0], settings, strict=True):
    at = [i for i, arm in enumerate(arms) if (arm, horizon) in intervals]
    found = [intervals[arms[i], horizon] for i in at]
    mid = np.array([x.point for x in found])
    spread = [mid - [x.low for x in found], [x.high for x in found] - mid]
    ax.errorbar(mid, at, xerr=np.maximum(np.nan_to_num(spread), 0), fmt='o', color='#0072B2',
                elinewidth=0.8)
    if (sweep.BASE, horizon) in intervals:
      ax.axvline(intervals[sweep.BASE, horizon].point, color='#D55E00', linewidth=0.8)
    ax.set_title(f'{task}, {setting}')
    ax.set_yticks(range(len(arms)), arms if ax is axes_1N[0, 0] else [''] * len(arms), fontsize=5.5)
    ax.set_ylim(-1, len(arms))
    ax.set_xlabel('success after the last step')
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
