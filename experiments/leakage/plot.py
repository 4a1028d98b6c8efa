"""Draws the share of credit on irrelevant turns, and the credit of a mistake and its repair.

  python -m experiments.leakage.plot        redraws figure.png from the results beside this file
"""

import pathlib

from matplotlib.figure import Figure
import numpy as np

from grpo.study import frames
from grpo.study import plots

HERE = pathlib.Path(__file__).resolve().parent


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder."""
  rows = frames.read(pathlib.Path(folder) / 'results.csv')
  fig, ((left, right),) = plots.new(1, 2, height=2.6)
  share = frames.where(rows, part='share')
  arms = [arm for arm, in frames.unique(share, 'arm')]
  for i, (arm, look) in enumerate(plots.looks(arms).items()):
    line = frames.where(share, arm=arm)
    look |= dict(linestyle='-' if i < 8 else '--')
    left.plot([r['horizon'] for r in line], [r['share'] for r in line], label=arm, **look)
  left.set_xscale('log', base=2)
  left.set_xlabel('turns H')
  left.set_ylabel('share of |credit| on irrelevant turns')
  left.set_ylim(-0.03, 1.03)
  fig.legend(*left.get_legend_handles_labels(), loc='outside upper center', ncols=4, fontsize=5.5)
  repair = frames.where(rows, part='repair')
  at = np.arange(len(repair))
  for i, (column, label) in enumerate((('bad', 'BAD, repaired'), ('recover', 'RECOVER'),
                                       ('bad_mean', 'BAD, all paths'))):
    right.barh(at + 0.27 * (i - 1), [r[column] for r in repair], 0.25, label=label,
               color=('#D55E00', '#0072B2', '#999999')[i])
  right.axvline(0, color='black', linewidth=0.6)
  right.set_yticks(at, [r['arm'] for r in repair], fontsize=5.5)
  right.invert_yaxis()
  right.set_xlabel('credit')
  right.legend(fontsize=6, loc='lower right')
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
