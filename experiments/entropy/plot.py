"""Draws success, entropy, informative groups and the clipped share against steps.

  python -m experiments.entropy.plot        redraws figure.png from the CSV files beside this one
"""

import pathlib

from matplotlib.figure import Figure

from experiments.entropy import sweep
from grpo.study import plots
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_PANELS = {'success': 'success', 'entropy': 'entropy, nats a token',
           'group/informative': 'groups with spread, as sampled',
           'ratio/clip_fraction': 'clipped share of tokens'}


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from curves.csv in a folder. What is logged while training starts after step 0."""
  curves = tables.read(pathlib.Path(folder) / 'curves.csv')
  look = plots.looks(list(sweep.ARMS))
  fig, axes_1N = plots.new(1, len(_PANELS), width=2.1 * len(_PANELS), height=2.3)
  for ax, (name, label) in zip(axes_1N[0], _PANELS.items(), strict=True):
    here = curves if name == 'success' else [c for c in curves if c['step'] > 0]
    plots.learning_curves(ax, here, look, y=name)
    ax.set_ylabel(label)
  plots.legend(fig, axes_1N[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
