"""Draws pass@1 on held-out sums of a pretrained model while it trains, and how groups change.

  python -m experiments.real_math.plot        redraws figure.png from the CSV files beside this one
"""

import pathlib

from matplotlib.figure import Figure

from grpo.study import plots
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_NAMES = dict(grpo='GRPO', grpo_dis='GRPO + mask', ppo='PPO', sao='SAO')


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv and curves.csv in a folder."""
  folder = pathlib.Path(folder)
  rows, curves = tables.read(folder / 'results.csv'), tables.read(folder / 'curves.csv')
  for row in rows + curves:
    row['arm'] = _NAMES.get(row['arm'], row['arm'])
  look = plots.looks([arm for arm, in tables.unique(rows, 'arm')])
  fig, axes_1N = plots.new(1, 2, width=6.0, height=2.5)
  held, own = axes_1N[0]
  plots.learning_curves(held, curves, look, y='success')
  held.set_title('held-out sums')
  held.set_ylabel('pass@1')
  plots.learning_curves(own, curves, look, y='sampled')
  own.set_title('sums trained on')
  own.set_ylabel('')
  for ax in (held, own):
    ax.set_ylim(-0.02, 1.02)
  plots.legend(fig, held)
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
