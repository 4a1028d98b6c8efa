"""Figures from the rows of results.csv and curves.csv, for print and for colour-blind eyes.

Arms differ in colour and in marker, so that a figure survives a grey printer. Colours are those of
Okabe and Ito.
"""

from collections.abc import Mapping, Sequence
import pathlib
from typing import Any

import matplotlib
from matplotlib import axes
from matplotlib import figure
from matplotlib import ticker
import numpy as np

from grpo.study import stats

__all__ = ['STYLE', 'styled', 'new', 'whole', 'log_scale', 'looks', 'learning_curves',
           'score_against', 'legend', 'save']

Row = Mapping[str, Any]
_COLOURS = ('#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#000000', '#B3A400')
_MARKERS = 'osD^vP*X'

STYLE = {
    'font.size': 8, 'axes.labelsize': 8, 'axes.titlesize': 8, 'legend.fontsize': 7.5,
    'xtick.labelsize': 7, 'ytick.labelsize': 7, 'axes.linewidth': 0.6, 'lines.linewidth': 1.3,
    'lines.markersize': 3.5, 'axes.spines.top': False, 'axes.spines.right': False,
    'axes.grid': True, 'grid.linewidth': 0.4, 'grid.alpha': 0.4, 'legend.frameon': False,
    'figure.dpi': 120, 'savefig.dpi': 200, 'pdf.fonttype': 42,
}
# Decorator of functions that draw: the style holds in them and nowhere else.
styled = matplotlib.rc_context(STYLE)


@styled
def new(rows: int, columns: int, *, width: float = 6.8,
        height: float = 2.2) -> tuple[figure.Figure, np.ndarray]:
  """A figure with a grid of axes; `width` in all and `height` of a row, in inches.

  It belongs to no window and to no global state.
  """
  fig = figure.Figure(figsize=(width, height * rows), layout='constrained')
  return fig, fig.subplots(rows, columns, squeeze=False)


def whole(ax) -> None:
  """Ticks of the horizontal axis at whole numbers, as steps and turns are; else as they were."""
  ax.xaxis.set_major_locator(ticker.MaxNLocator('auto', steps=[1, 2, 2.5, 5, 10], integer=True))


class _Plain(ticker.LogFormatter):
  """0.6 where other formatters write 6 x 10^-1; the ticks that have a label are theirs."""

  def __call__(self, x, pos=None):
    return f'{x:g}' if super().__call__(x, pos) else ''


def log_scale(ax) -> None:
  """A logarithmic vertical axis with plain numbers."""
  ax.set_yscale('log')
  ax.yaxis.set_major_formatter(_Plain())
  ax.yaxis.set_minor_formatter(_Plain(minor_thresholds=(1, 0.4)))


def looks(arms: Sequence[str]) -> dict[str, dict[str, Any]]:
  """Colour and marker of each arm, by its place in the list."""
  return {a: dict(color=_COLOURS[i % len(_COLOURS)], marker=_MARKERS[i % len(_MARKERS)])
          for i, a in enumerate(arms)}


@styled
def learning_curves(ax: axes.Axes, curves: Sequence[Row], look: Mapping[str, Mapping[str, Any]], *,
                    x: str = 'step', y: str = 'success', label: str | None = None) -> None:
  """Interquartile mean over seeds against `x`, with a 95 % bootstrap band, one line an arm.

  Args:
    ax: where to draw.
    curves: rows of curves.csv of one setting. Rows whose `x` differs between seeds (FLOPs) are
      drawn at the mean.
    look: of each arm, in the order of the legend.
    x, y: columns.
    label: of the x axis; the name of the column if None.
  """
  for arm, style in look.items():
    runs = {}
    for row in curves:
      if row['arm'] == arm:
        runs.setdefault(row['seed'], []).append((row['step'], row[x], row[y]))
    if not runs:
      continue
    points = np.array([sorted(run) for run in runs.values()], np.float64)  # [seeds, E, 3]
    band = stats.bootstrap([points[:, :, 2].T])
    at = points[:, :, 1].mean(axis=0)
    ax.plot(at, band.point, label=arm, markevery=max(1, len(at) // 8), **style)
    ax.fill_between(at, band.low, band.high, color=style['color'], alpha=0.18, linewidth=0)
  ax.set_xlabel(label or x)
  ax.set_ylabel(y)
  if x == 'step':
    whole(ax)


@styled
def score_against(ax: axes.Axes, rows: Sequence[Row], look: Mapping[str, Mapping[str, Any]], *,
                  x: str = 'horizon', score: str = 'success_last',
                  label: str | None = None) -> None:
  """Interquartile mean of a score against a setting (a log2 axis), with 95 % bootstrap bars.

  Args:
    ax: where to draw.
    rows: of results.csv, one task.
    look: of each arm, in the order of the legend. Arms are set apart a little sideways.
    x, score: columns.
    label: of the x axis; the name of the column if None.
  """
  values = sorted({row[x] for row in rows})
  for i, (arm, style) in enumerate(look.items()):
    at, low, mid, high = [], [], [], []
    for value in values:
      runs = [row[score] for row in rows if row['arm'] == arm and row[x] == value]
      if runs:
        interval = stats.bootstrap([np.array(runs)])
        at.append(value * 2 ** (0.06 * (i - (len(look) - 1) / 2)))
        mid.append(interval.point)
        low.append(interval.point - interval.low)
        high.append(interval.high - interval.point)
    if at:
      ax.errorbar(at, mid, np.maximum(np.nan_to_num([low, high]), 0), label=arm, capsize=2, **style)
  ax.set_xscale('log', base=2)
  ax.set_xticks(values, [f'{v:g}' for v in values])
  ax.minorticks_off()
  ax.set_xlabel(label or x)
  ax.set_ylabel(score.replace('_', ', '))


@styled
def legend(fig: figure.Figure, ax: axes.Axes) -> None:
  """One legend above the whole figure, with the entries of one of its axes."""
  handles, labels = ax.get_legend_handles_labels()
  fig.legend(handles, labels, loc='outside upper center', ncols=len(labels))


@styled
def save(fig: figure.Figure, path: str | pathlib.Path) -> None:
  """Writes the figure beside its place and renames it; the same figure gives the same bytes."""
  path = pathlib.Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  beside = path.with_name(f'.{path.stem}.part{path.suffix}')
  fig.savefig(beside, metadata={'Software': None} if path.suffix == '.png' else None)
  beside.replace(path)
