"""Draws the error and the ranking of critics by turn, lag and age, and how they warm up.

  python -m experiments.critic_depth.plot        redraws figure.png from results.csv
"""

import pathlib

from matplotlib.figure import Figure
import numpy as np

from grpo.study import frames
from grpo.study import plots
from grpo.study import stats

HERE = pathlib.Path(__file__).resolve().parent


def interval(rows, x: str, y: str):
  """(x, interquartile mean over seeds, low, high) of a column, where any seed has it."""
  out = []
  for at in sorted({r[x] for r in rows}):
    values = np.array([r[y] for r in rows if r[x] == at and r[y] == r[y]])
    if len(values):
      band = stats.bootstrap([values])
      out.append((at, band.point, band.low, band.high))
  return np.array(out, np.float64).reshape(-1, 4).T


def _line(ax, rows, x, y, label, style):
  at, point, low, high = interval(rows, x, y)
  ax.plot(at, point, label=label, **style)
  ax.fill_between(at, low, high, color=style['color'], alpha=0.18, linewidth=0)
  ax.set_xlabel(dict(turn='turn', step='training step', lag='lag, steps').get(x, x))


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder."""
  rows = frames.read(pathlib.Path(folder) / 'results.csv')
  last = max(r['step'] for r in rows if r['step'] == r['step'])
  online = frames.where(rows, arm='online')
  episodes = frames.where(rows, part='episode')
  fig, axes = plots.new(2, 3, height=2.1)
  lags = [lag for lag, in frames.unique(online, 'lag')]
  look = plots.looks([f'lag {lag}' for lag in lags] + ['dead'])
  for lag in lags:
    turns = frames.where(online, part='turn', lag=lag, step=last)
    _line(axes[0, 0], turns, 'turn', 'error', f'lag {lag}', look[f'lag {lag}'])
    _line(axes[0, 1], turns, 'turn', 'explained_value', f'lag {lag}', look[f'lag {lag}'])
    _line(axes[0, 2], frames.where(online, part='episode', lag=lag), 'step', 'error',
          f'lag {lag}', look[f'lag {lag}'])
  dead = frames.where(rows, arm='dead')
  _line(axes[0, 0], frames.where(dead, part='turn', step=last), 'turn', 'error', 'dead',
        look['dead'])
  _line(axes[0, 2], frames.where(dead, part='episode'), 'step', 'error', 'dead', look['dead'])
  axes[0, 0].set_ylabel('error of V, last step')
  axes[0, 1].set_ylabel('explained, last step')
  axes[0, 1].set_ylim(-1, 1.05)
  axes[0, 2].set_ylabel('error of V, episode')

  ax = axes[1, 0]
  for arm, style in plots.looks(('online', 'fixed', 'dead')).items():
    points = [(r['explained_value'], r['choice']) for r in frames.where(episodes, arm=arm)
              if r['explained_value'] == r['explained_value'] and r['choice'] == r['choice']]
    x, y = zip(*points)
    ax.plot(np.maximum(x, -1), y, linestyle='', markersize=1.8, color=style['color'],
            marker=style['marker'], label=arm)
  ax.set_xlabel('explained, episode (below -1 at -1)')
  ax.set_ylabel('rank of actions')
  ax.legend(fontsize=5)
  fixed = frames.where(episodes, arm='fixed')
  horizons = [t for t, in frames.unique(fixed, 'horizon')]
  for ax, y, label in ((axes[1, 1], 'explained_value', 'explained, fixed policy'),
                       (axes[1, 2], 'error', 'error of V, fixed policy')):
    for turns, style in plots.looks(horizons).items():
      _line(ax, frames.where(fixed, horizon=turns), 'step', y, f'{turns} turns', style)
    ax.set_xlabel('critic-only steps')
    ax.set_ylabel(label)
    ax.legend(fontsize=5)
  axes[1, 1].set_ylim(-1, 1.05)
  handles, labels = axes[0, 0].get_legend_handles_labels()
  fig.legend(handles, labels, loc='outside upper center', ncols=4, fontsize=6)
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
