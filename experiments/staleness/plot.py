"""Draws score, effective sample size and cosine of successive gradients against lag.

  python -m experiments.staleness.plot        redraws figure.png from results.csv beside this one
"""

import math
import pathlib

from matplotlib.figure import Figure

from experiments.staleness import sweep
from grpo.study import plots
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_COLUMNS = {sweep.SCORE: 'success, last step', 'ratio/ess_last': 'effective sample size',
            'grad/cosine_last': 'cosine of gradients'}


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder: a row for each estimator, constant lags alone."""
  rows = tables.read(pathlib.Path(folder) / 'results.csv')
  rows = [r | dict(place=max(r['horizon'], 1)) for r in rows if r['setting'] != 'waiting']
  shown = [e for e in sweep.ESTIMATORS if any(r['arm'].startswith(e) for r in rows)]
  fig, axes_RC = plots.new(len(shown), len(_COLUMNS), width=6.8, height=1.9)
  look = plots.looks(list(sweep.BOUNDS))
  for estimator, axes_C in zip(shown, axes_RC, strict=True):
    mine = [r | dict(arm=r['arm'].split()[1]) for r in rows if r['arm'].startswith(estimator)]
    for ax, (column, name) in zip(axes_C, _COLUMNS.items(), strict=True):
      known = [r for r in mine if not math.isnan(r[column])]
      plots.score_against(ax, known, look, x='place', score=column, label='lag, in steps')
      ax.set_xticks(*zip(*sorted({(r['place'], f'{r["horizon"]:g}') for r in mine})))
      ax.set_ylabel(name)
      ax.set_title(f'{estimator}: {name}', fontsize=7)
  plots.legend(fig, axes_RC[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
