"""Draws success against the length of a chunk, one panel for each dependency length.

  python -m experiments.chunk_length.plot        redraws figure.png from results.csv beside this one
"""

import pathlib

from matplotlib.figure import Figure

from experiments.chunk_length import sweep
from grpo.study import plots
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder. The whole episode is the last point of all lines."""
  rows, lines = tables.read(pathlib.Path(folder) / 'results.csv'), []
  for row in rows:
    bootstrap, length = sweep.arms()[row['arm']]
    ends = sweep.BOOTSTRAPS if row['arm'] == sweep.BASE else (bootstrap,)
    lines += [row | dict(arm=f'bootstrap {end}', length=length) for end in ends]
  look = plots.looks([f'bootstrap {end}' for end in sweep.BOOTSTRAPS])
  spans = sorted(tables.unique(rows, 'horizon', 'setting'))
  fig, axes_1N = plots.new(1, len(spans), width=2.3 * len(spans), height=2.3)
  for ax, (span, setting) in zip(axes_1N[0], spans, strict=True):
    plots.score_against(ax, [r for r in lines if r['horizon'] == span], look, x='length',
                        label='turns of a chunk')
    ax.axvline(span, color='black', linewidth=0.8, linestyle=':')
    ax.set_title(f'{setting} turns')
    ax.set_ylim(-0.02, 1.02)
    ax.set_ylabel('success after the last step' if ax is axes_1N[0, 0] else '')
  plots.legend(fig, axes_1N[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
