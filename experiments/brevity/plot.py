"""Draws length at the end over the start, success and held-out gap of each arm in each setting.

  python -m experiments.brevity.plot        redraws figure.png from the files beside this one
"""

import pathlib

from matplotlib.figure import Figure

from experiments.brevity import sweep
from grpo.study import plots
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_PANELS = {sweep.SCORE: 'length, end / start', 'success_last': 'success, last step',
           'gap': 'training - held out'}


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv and curves.csv in a folder; settings stand side by side."""
  results, curves = (tables.read(pathlib.Path(folder) / f) for f in ('results.csv', 'curves.csv'))
  rows = sweep.rows(results, curves)
  settings = list(dict.fromkeys(r['setting'] for r in rows))
  rows = [r | dict(place=2**settings.index(r['setting'])) for r in rows]
  look = plots.looks(list(dict.fromkeys(r['arm'] for r in rows)))
  fig, axes_N1 = plots.new(len(_PANELS), 1, width=6.8, height=2.0)
  for ax, (column, name) in zip(axes_N1[:, 0], _PANELS.items(), strict=True):
    plots.score_against(ax, rows, look, x='place', score=column, label='')
    ax.set_ylabel(name)
    ax.set_xticks([2**i for i in range(len(settings))], settings, fontsize=5, rotation=12)
    for line in ax.lines:
      line.set_linestyle('none')  # settings have no order
  axes_N1[0, 0].axhline(1.0, color='0.7', linewidth=0.6, zorder=0)
  plots.legend(fig, axes_N1[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
