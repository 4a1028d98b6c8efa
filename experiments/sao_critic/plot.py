"""Draws explained variance, gradient norm and masked share of critics, and success against EV.

  python -m experiments.sao_critic.plot        redraws figure.png from results.csv beside this one
"""

import math
import pathlib

from matplotlib.figure import Figure
import numpy as np

from experiments.sao_critic import run
from grpo.study import frames
from grpo.study import plots
from grpo.study import stats

HERE = pathlib.Path(__file__).resolve().parent
_NAMES = dict(ppo='PPO', sao_clip='SAO, clip', sao_free='SAO, unbounded', sao_k1='SAO, K = 1',
              sao_unfrozen='SAO, unfrozen', sao='SAO')
_TITLES = ('explained variance', 'critic gradient norm', 'share without gradient')


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder: interquartile means and 95 % intervals over seeds."""
  rows = frames.read(pathlib.Path(folder) / 'results.csv')
  settings = [s for s, in frames.unique(rows, 'setting')]
  shown = [a for a in _NAMES if any(r['arm'] == a for r in rows)]
  look = plots.looks(settings)
  fig, axes_1N = plots.new(1, 4, width=7.6, height=2.4)
  for ax, column, title in zip(axes_1N[0], run.COLUMNS, _TITLES, strict=False):
    for i, setting in enumerate(settings):
      values = {a: np.array([r[column] for r in rows if (r['arm'], r['setting']) == (a, setting)
                             and not math.isnan(r[column])]) for a in shown}
      there = [a for a in shown if len(values[a])]  # at lag 2 there are fewer arms
      found = [stats.bootstrap([values[a]]) for a in there]
      mid = np.array([x.point for x in found])
      spread = [mid - [x.low for x in found], [x.high for x in found] - mid]
      at = [len(shown) - 1 - shown.index(a) + 0.12 * (i - (len(settings) - 1) / 2) for a in there]
      style = look[setting] | dict(linestyle='', markersize=2.5)
      ax.errorbar(mid, at, xerr=np.maximum(np.nan_to_num(spread), 0), label=setting, **style)
    ax.set_yticks(np.arange(len(shown))[::-1],
                  [_NAMES[a] for a in shown] if ax is axes_1N[0, 0] else [''] * len(shown))
    ax.set_title(title)
  right = axes_1N[0, 3]
  for setting in settings:
    mine = [r for r in rows if r['setting'] == setting]
    right.plot([r['critic/explained'] for r in mine], [r['success_last'] for r in mine],
               **look[setting] | dict(linestyle='', markersize=2))
  right.set_xlabel('explained variance')
  right.set_ylabel('success, last step')
  plots.legend(fig, axes_1N[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
