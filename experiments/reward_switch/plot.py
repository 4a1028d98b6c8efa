"""Draws reward and success against steps, with the steps at which the rewarded style changes.

  python -m experiments.reward_switch.plot    redraws figure.png from the CSV files beside this one
"""

import pathlib

from matplotlib.figure import Figure

from experiments.reward_switch import sweep
from grpo.study import plots
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_NAMES = dict(running='running mean', critic='critic', group='group',
              batch_single='batch mean, single', batch_group='batch mean, groups')


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv and curves.csv in a folder."""
  results, curves = (tables.read(pathlib.Path(folder) / f) for f in ('results.csv', 'curves.csv'))
  phase = sweep.PHASE[sweep.size_of(results)]
  curves = [row | dict(arm=_NAMES[row['arm']]) for row in curves]
  look = plots.looks(list(_NAMES.values()))
  fig, axes_1N = plots.new(1, 2, width=6.8, height=2.6)
  for ax, column in zip(axes_1N[0], ('reward', 'success'), strict=True):
    plots.learning_curves(ax, curves, look, y=column)
    for step in (phase, 2 * phase):
      ax.axvline(step, color='black', linewidth=0.8, linestyle=':')
    ax.set_ylim(-0.02, 1.02)
  plots.legend(fig, axes_1N[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
