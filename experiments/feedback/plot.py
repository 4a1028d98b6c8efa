"""Draws what an episode earns while training, a panel for each order and delay.

  python -m experiments.feedback.plot      redraws figure.png from the CSV files beside this one
"""

import pathlib

from matplotlib.figure import Figure

from experiments.feedback import sweep
from grpo.study import plots
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_NAMES = dict(whole='whole episode', to_go='reward to go', own='own reward', anchors='anchors',
              critic='critic')


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv and curves.csv in a folder."""
  _, curves = tables.runs(folder, _NAMES)
  look = plots.looks(list(_NAMES.values()))
  orders = [order for order, in sorted(tables.unique(curves, 'horizon'))]
  fig, axes = plots.new(len(sweep.DELAYS), len(orders), width=6.4, height=2.0)
  for line, delay in zip(axes, sweep.DELAYS, strict=True):
    for ax, order in zip(line, orders, strict=True):
      setting = f'order {order:g}, {delay}'
      plots.learning_curves(ax, [c for c in curves if c['setting'] == setting], look, y='reward')
      ax.axvspan(0, 2 * sweep.HALF[order], color='0.93', zorder=0)  # what the score averages
      ax.set_title(setting)
      ax.set_ylim(0.25, 1.02)
  plots.legend(fig, axes[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
