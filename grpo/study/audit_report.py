"""The rows of an audit as a table and as a figure."""

from collections.abc import Mapping, Sequence
import math
from typing import Any

from matplotlib import figure as figures
import numpy as np

from grpo.study import frames
from grpo.study import judge
from grpo.study import plots

__all__ = ['text', 'critic_text', 'figure']

Row = Mapping[str, Any]
_SETTING = ('step', 'horizon', 'visibility')
_PANELS = (('step_cosine', 'cosine of one batch'), ('snr', 'SNR of the gradient'),
           ('sign', 'wrong sign'), ('leakage', 'leakage'))
_LINES = ('group z-score (GRPO)', 'anchors (GiGPO)', 'exact critic, lambda 1',
          'exact critic, lambda 0.95', 'exact critic, lambda 0', 'noisy critic, lambda 0.95',
          'trained critic, lambda 0.95')


def _number(x):
  return '    -' if math.isnan(x) else f'{x:5.2f}' if abs(x) < 100 else f'{x:5.0g}'


def text(rows: Sequence[Row]) -> str:
  """One block for each setting: an estimator a line, the measures of the whole episode."""
  out = []
  for setting in frames.unique(rows, *_SETTING):
    chosen = frames.where(rows, part='episode', **dict(zip(_SETTING, setting)))
    head = ', '.join(f'{k} {v:g}' for k, v in zip(_SETTING, setting))
    out.append(f'{head}: success {chosen[0]["success"]:.2f}, spread of the policy inside a state '
               f'{chosen[0]["spread"]:.3f}')
    names = [k.removesuffix('_cosine') for k in judge.MEASURES]
    out.append(f'{"":40}' + '  '.join(f'{n:>12}' for n in names))
    for r in chosen:
      cells = [f'{_number(r[k])}' if math.isnan(r[k]) else  # no point, no interval of it
               f'{_number(r[k])} ±{_number(_half(r, k)).strip():>5}' for k in judge.MEASURES]
      out.append(f'{r["estimator"]:40}' + '  '.join(f'{c:12}' for c in cells))
    out.append('')
  return '\n'.join(out)


def critic_text(rows: Sequence[Row]) -> str:
  """Health of the critic: a line for each setting and turn, those of the whole episode first."""
  names = ('explained_value', 'explained_return', 'ceiling', 'error', 'bias', 'spread', 'rank',
           'dead')
  out = ['critic against exact values', f'{"":44}' + '  '.join(f'{n:>16}' for n in names)]
  for r in rows:
    where = ', '.join(f'{k} {r[k]:g}' for k in (*_SETTING, 'turn') if k in r)
    out.append(f'{where:44}' + '  '.join(f'{_number(r[n]):>16}' for n in names))
  return '\n'.join(out)


def _half(row, key):
  """Half the width of an interval."""
  return (row[f'{key}_high'] - row[f'{key}_low']) / 2


@plots.styled
def figure(rows: Sequence[Row]) -> figures.Figure:
  """Bars of the first setting; lines over position, and over what varies, if anything does."""
  first = dict(zip(_SETTING, frames.unique(rows, *_SETTING)[0]))
  chosen = frames.where(rows, part='episode', **first)
  varied = [k for k in _SETTING if len(frames.unique(rows, k)) > 1]
  fig = figures.Figure(figsize=(7.2, 1.2 + 0.1 * len(chosen) + 2.0), layout='constrained')
  top, bottom = fig.subfigures(2, 1, height_ratios=(1.0 + 0.1 * len(chosen), 2.0))
  axes = top.subplots(1, len(_PANELS))
  at = np.arange(len(chosen))
  for ax, (key, label) in zip(axes, _PANELS, strict=True):
    value, low, high = (np.clip([r[f'{key}{end}'] for r in chosen], *judge.BOUNDS[key])
                        for end in ('', '_low', '_high'))
    error = np.maximum(np.nan_to_num([value - low, high - value]), 0)
    ax.errorbar(value, at, xerr=error, fmt='o', color='#0072B2', elinewidth=0.7, markersize=2.5)
    ax.set_yticks(at, [r['estimator'] for r in chosen] if ax is axes[0] else [''] * len(at),
                  fontsize=5)
    ax.set_ylim(len(chosen) - 0.5, -0.5)
    ax.set_xlabel(label)
  known = [name for name, in frames.unique(rows, 'estimator')]
  look = plots.looks([n for n in _LINES if n in known] or known[:6])
  lines = bottom.subplots(1, 2 + len(varied))
  turns = frames.where(rows, part='turn', **first)
  for ax, key, label in zip(lines, ('noise', 'sign'), ('noise over signal', 'wrong sign')):
    _line(ax, turns, look, 'turn', key)
    ax.set_ylabel(label)
  for ax, key in zip(lines[2:], varied):
    rest = {k: v for k, v in first.items() if k != key}
    _line(ax, frames.where(rows, part='episode', **rest), look, key, 'snr')
    ax.set_ylabel('SNR of the gradient')
  lines[0].legend(fontsize=5)
  return fig


def _line(ax, rows, look, x, y):
  """A line for each estimator, over a column."""
  for name, style in look.items():
    line = [(r[x], r[y]) for r in frames.where(rows, estimator=name) if not math.isnan(r[y])]
    if line:
      ax.plot(*zip(*line), label=name, **style)
  ax.set_xlabel(dict(turn='turn', step='training step').get(x, x))
  if x in ('turn', 'step', 'horizon'):
    plots.whole(ax)
