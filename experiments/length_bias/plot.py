"""Draws the length of wrong and of right answers, their gap, and success against steps.

  python -m experiments.length_bias.plot        redraws figure.png from the files beside this one
"""

import pathlib

from matplotlib.figure import Figure

from experiments.length_bias import sweep
from grpo.study import plots
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_PANELS = {'length/wrong': 'tokens of wrong answers', 'length/right': 'tokens of right answers',
           'gap': 'wrong minus right', 'success': 'success'}


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from curves.csv in a folder. What is logged while training starts after step 0."""
  curves = tables.read(pathlib.Path(folder) / 'curves.csv')
  logged = [c | dict(gap=c['length/wrong'] - c['length/right']) for c in curves if c['step'] > 0]
  look = plots.looks(list(sweep.ARMS))
  fig, axes_1N = plots.new(1, len(_PANELS), width=2.1 * len(_PANELS), height=2.3)
  for ax, (name, label) in zip(axes_1N[0], _PANELS.items(), strict=True):
    plots.learning_curves(ax, curves if name == 'success' else logged, look, y=name)
    ax.set_ylabel(label)
  plots.legend(fig, axes_1N[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
