"""Draws success on fresh episodes against steps: one panel for each lag and learning rate.

  python -m experiments.sao_stability.plot     redraws figure.png from curves.csv beside this one
"""

import pathlib

from matplotlib.figure import Figure

from grpo.study import plots
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
NAMES = dict(grpo='GRPO', grpo_dis='GRPO + mask', grpo_free='GRPO, unbounded',
             single_running='running mean + mask', ppo='PPO', sao_clip='SAO, clip',
             sao_free='SAO, unbounded', sao='SAO')


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from curves.csv in a folder. Eight arms are drawn; the table has them all."""
  curves = tables.read(pathlib.Path(folder) / 'curves.csv')
  curves = [row | dict(arm=NAMES[row['arm']]) for row in curves if row['arm'] in NAMES]
  look = plots.looks(list(NAMES.values()))
  settings = tables.unique(curves, 'setting')
  fig, axes_1N = plots.new(1, len(settings), width=0.8 + 2.3 * len(settings), height=2.6)
  for ax, (setting,) in zip(axes_1N[0], settings, strict=True):
    plots.learning_curves(ax, [r for r in curves if r['setting'] == setting], look)
    ax.set_title(setting)
    ax.set_ylim(-0.02, 1.02)
  handles, labels = axes_1N[0, 0].get_legend_handles_labels()
  fig.legend(handles, labels, loc='outside upper center', ncols=4)
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
