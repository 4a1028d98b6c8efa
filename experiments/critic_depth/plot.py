"""Draws the error and the ranking of critics by turn, lag and age, and how they warm up.

  python -m experiments.critic_depth.plot        redraws figure.png, prints the README's numbers
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


def _text(values) -> str:
  band = stats.bootstrap([np.asarray(values, np.float64)])
  return f'{band.point:.3f} [{band.low:.3f}, {band.high:.3f}]'


def _by_seed(rows, y: str) -> dict:
  """Seed -> mean of a column over its rows."""
  return {seed: np.mean([r[y] for r in frames.where(rows, seed=seed)])
          for seed, in frames.unique(rows, 'seed')}


def _less(a, b) -> list:
  """Differences of paired seeds."""
  return [a[seed] - b[seed] for seed in a]


def findings(rows) -> dict[str, str]:
  """What the README states: interquartile means over seeds with 95 % bootstrap intervals."""
  last = max(r['step'] for r in rows if r['step'] == r['step'])
  out, third = {}, max(r['horizon'] for r in rows) // 3
  online = frames.where(rows, arm='online', step=last)
  for lag, in frames.unique(online, 'lag'):
    turns = frames.where(online, part='turn', lag=lag)
    early = _by_seed([r for r in turns if r['turn'] < third], 'error')
    late = _by_seed([r for r in turns if r['turn'] >= 2 * third], 'error')
    out[f'early error, lag {lag}'] = _text(list(early.values()))
    out[f'late error, lag {lag}'] = _text(list(late.values()))
    out[f'early less late, lag {lag}'] = _text(_less(early, late))
    for name, chosen in (('early', [r for r in turns if 0 < r['turn'] < third]),
                         ('late', [r for r in turns if r['turn'] >= 2 * third])):
      found = _by_seed(chosen, 'explained_value')
      out[f'{name} explained, lag {lag}'] = _text(list(found.values()))
  each = {lag: frames.where(online, part='episode', lag=lag)
          for lag, in frames.unique(online, 'lag')}
  base = each[min(each)]
  looks = sorted(s for s, in frames.unique(frames.where(rows, part='episode'), 'step'))
  before = frames.where(rows, arm='online', part='episode', lag=min(each), step=looks[-2])
  for lag, found in each.items():
    for key in ('error', 'explained_value', 'success'):
      out[f'{key}, lag {lag}'] = _text(list(_by_seed(found, key).values()))
    out[f'error, lag {lag} less {min(each)}'] = _text(
        _less(_by_seed(found, 'error'), _by_seed(base, 'error')))
    out[f'error, lag {lag} less {min(each)} a look before'] = _text(
        _less(_by_seed(found, 'error'), _by_seed(before, 'error')))
  points = [r for r in frames.where(rows, part='episode', arm=('online', 'fixed'))
            if r['explained_value'] == r['explained_value'] and r['choice'] == r['choice']]
  edges = (-np.inf, 0.0, 0.25, 0.5, np.inf)
  for low, high in zip(edges, edges[1:]):
    here = [r['choice'] for r in points if low <= r['explained_value'] < high]
    name = f'choice, explained {low:g} to {high:g}'
    out[name] = (f'{len(here)} looks' + (f', median {np.median(here):.2f}, above 0.5: '
                                         f'{np.mean(np.array(here) > 0.5):.2f}' if here else ''))
  for turns, in frames.unique(frames.where(rows, part='warm_up'), 'horizon'):
    found = frames.where(rows, part='warm_up', horizon=turns)
    ready = [r['warm_up'] for r in found if r['warm_up'] == r['warm_up']]
    out[f'warm-up, {turns} turns'] = f'{len(ready)} of {len(found)} seeds' + (
        f', {_text(ready)}' if len(ready) > 1 else '')
    best = [r['best'] for r in found if r['best'] == r['best']]
    out[f'best explained, {turns} turns'] = _text(best) if len(best) > 1 else '-'
  warm = frames.where(rows, part='warm_up')
  short, *_, long = (_by_seed(frames.where(warm, horizon=t), 'warm_up')
                     for t, in frames.unique(warm, 'horizon'))
  out['warm-up, longest less shortest'] = _text(_less(long, short))
  dead = frames.where(rows, arm='dead', part='episode', step=last)
  for key in ('explained_value', 'explained_return', 'spread', 'choice', 'error', 'success'):
    known = [r[key] for r in dead if r[key] == r[key]]
    out[f'dead: {key}'] = _text(known) if known else '-'
  out['dead less online: success'] = _text(
      _less(_by_seed(dead, 'success'), _by_seed(base, 'success')))
  return out


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
    later = [r for r in turns if r['turn'] > 0]  # before turn 0 V is one number but for the cue
    _line(axes[0, 1], later, 'turn', 'explained_value', f'lag {lag}', look[f'lag {lag}'])
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
    x, y = zip(*points) if points else ((), ())  # a smoke run may have nothing to explain
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
  for what, number in findings(frames.read(HERE / 'results.csv')).items():
    print(f'{what:36} {number}')
  plots.save(figure(), HERE / 'figure.png')
