"""Draws what each part of SAO does, and what pairs of parts do beyond that.

  python -m experiments.sao_parts.plot        redraws figure.png from results.csv beside this one
"""

import pathlib

from matplotlib.figure import Figure
import numpy as np

from experiments.sao_parts import sweep
from grpo.study import plots
from grpo.study import stats
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_ROW = 0.16  # inches


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder: paired differences over seeds, 95 % intervals."""
  rows = sweep.rows(tables.read(pathlib.Path(folder) / 'results.csv'), [])
  scores = {(r['setting'], r['arm'], r['seed']): r[sweep.SCORE] for r in rows}
  seeds = sorted({r['seed'] for r in rows})
  found = {}
  for setting, in tables.unique(rows, 'setting'):
    if all((setting, level, seeds[0]) in scores for level in (sweep.BASE, 'with')):
      found[setting] = stats.compare([np.array(
          [scores[setting, 'with', s] - scores[setting, sweep.BASE, s] for s in seeds])]).difference
  panels = [[s for s in found if (' x ' in s) == pair] for pair in (False, True)]
  fig, axes_1N = plots.new(1, 2, width=6.8, height=0.9 + _ROW * max(map(len, panels)))
  for ax, names, title in zip(axes_1N[0], panels, ('one part', 'two parts'), strict=True):
    at, mid = np.arange(len(names))[::-1], np.array([found[n].point for n in names])
    spread = [mid - [found[n].low for n in names], [found[n].high for n in names] - mid]
    ax.errorbar(mid, at, xerr=np.maximum(np.nan_to_num(spread), 0), fmt='o', color='#0072B2')
    ax.axvline(0, color='black', linewidth=0.8)
    ax.set_yticks(at, [n.replace(' x ', ' × ') for n in names], fontsize=6)
    ax.set_title(title)
    ax.set_xlabel('difference of success')
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
