"""Draws the staleness of rollouts against the size of the group.

  python -m experiments.stragglers.plot        redraws figure.png from the results beside this file
"""

import pathlib

from matplotlib.figure import Figure

from grpo.study import frames
from grpo.study import plots

HERE = pathlib.Path(__file__).resolve().parent


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder."""
  rows = frames.read(pathlib.Path(folder) / 'results.csv')
  fig, ((left, middle, right),) = plots.new(1, 3, height=2.4)
  sigmas = [s for s, in frames.unique(rows, 'sigma')]
  for sigma, look in plots.looks(sigmas).items():
    line = frames.where(rows, sigma=sigma)
    groups = [r['group'] for r in line]
    for ax, column in ((left, 'mean'), (middle, 'p95'), (right, 'slowest')):
      ax.plot(groups, [r[column] for r in line], label=f'sigma {sigma:g}', **look)
  for ax, label in ((left, 'staleness, mean'), (middle, 'staleness, 95 %'),
                    (right, 'E[slowest of G] / mean')):
    ax.set_xscale('log', base=2)
    ax.set_xticks(groups, [f'{g:g}' for g in groups])
    ax.minorticks_off()
    ax.set_xlabel('group G')
    ax.set_ylabel(label)
  left.legend()
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
