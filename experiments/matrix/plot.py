"""Draws success after the last step and the share of runs that collapsed, for each task.

  python -m experiments.matrix.plot        redraws figure.png from the CSV files beside this one
"""

import pathlib

from matplotlib.figure import Figure
import numpy as np

from experiments.matrix import sweep
from grpo.study import plots
from grpo.study import stats
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_NAMES = dict(grpo='GRPO', grpo_dis='GRPO + mask', ppo='PPO', sao='SAO', sao_groups='SAO, 8 × 8')


def collapsed(curves) -> dict[tuple, list[bool]]:
  """(arm, task) -> for each run, whether it ended below half of its start."""
  found = {}
  for arm, task, seed in tables.unique(curves, 'arm', 'task', 'seed'):
    run = sorted((r['step'], r['success']) for r in curves
                 if (r['arm'], r['task'], r['seed']) == (arm, task, seed))
    found.setdefault((arm, task), []).append(run[-1][1] < 0.5 * run[0][1])
  return found


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv and curves.csv in a folder."""
  rows, curves = (tables.read(pathlib.Path(folder) / f) for f in ('results.csv', 'curves.csv'))
  tasks = [t for t in sweep.TASKS if any(r['task'] == t for r in rows)]
  arms = [a for a in sweep.ARMS if any(r['arm'] == a for r in rows)]
  look, lost = plots.looks(arms), collapsed(curves)
  fig, axes_1N = plots.new(1, 3, width=7.6, height=2.5)
  columns = (('success_last', 'success, last step'), ('pass^8', 'pass^8'))
  for i, arm in enumerate(arms):
    at = np.arange(len(tasks)) + 0.13 * (i - (len(arms) - 1) / 2)
    style = look[arm] | dict(linestyle='')
    for ax, (column, _) in zip(axes_1N[0], columns, strict=False):
      found = [stats.bootstrap([np.array([r[column] for r in rows
                                          if (r['arm'], r['task']) == (arm, task)])])
               for task in tasks]
      mid = np.array([x.point for x in found])
      spread = [mid - [x.low for x in found], [x.high for x in found] - mid]
      ax.errorbar(at, mid, np.maximum(np.nan_to_num(spread), 0), label=_NAMES[arm], **style)
    axes_1N[0, 2].plot(at, [np.mean(lost[arm, task]) for task in tasks], **style)
  titles = [name for _, name in columns] + ['share of runs that collapsed']
  for ax, title in zip(axes_1N[0], titles, strict=True):
    ax.set_xticks(range(len(tasks)), tasks, rotation=40, ha='right')
    ax.set_ylim(-0.02, 1.02)
    ax.set_title(title)
  plots.legend(fig, axes_1N[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
