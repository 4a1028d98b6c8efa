"""Draws signal to noise against the horizon, and against what else it depends on.

  python -m experiments.snr.plot        redraws figure.png from the results beside this file
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
  fig, axes_23 = plots.new(2, 3)
  arms = [arm for arm, in frames.unique(rows, 'arm')]
  look = plots.looks(arms)
  table = frames.where(rows, part='horizon')
  panels = [(axes_23[0, 0], frames.where(table, visibility=1), 'horizon', 'snr', 'failures show'),
            (axes_23[0, 1], frames.where(table, visibility=0), 'horizon', 'snr', 'failures hidden'),
            (axes_23[0, 2], frames.where(table, visibility=0), 'horizon', 'cosine',
             'failures hidden')]
  middle = max(r['horizon'] for r in frames.where(rows, part='visibility'))
  here = frames.where(table, horizon=middle)
  for ax, part, x in zip(axes_23[1], ('visibility', 'decisive', 'error'),
                         ('visibility', 'decisive', 'noise')):
    known = here if part == 'visibility' else frames.where(here, visibility=1)
    panels.append((ax, frames.where(rows, part=part) + known, x, 'snr', f'T = {middle}'))
  for ax, chosen, x, y, title in panels:
    for arm, style in look.items():
      line = sorted((r[x], r[y], r['se']) for r in frames.where(chosen, arm=arm) if r[y] == r[y])
      if line:
        at, value, se = zip(*line)
        ax.errorbar(at, value, se if y == 'snr' else None, label=arm, **style)
    if x != 'visibility':
      ax.set_xscale('log', base=2)
    if y == 'snr':
      plots.log_scale(ax)
    ax.set_title(title)
    ax.set_xlabel(dict(horizon='steps T', visibility='visibility v', decisive='decisive steps K',
                       noise='error of the noisy critic')[x])
    ax.set_ylabel(dict(snr='SNR of the gradient', cosine='cosine with the true gradient')[y])
  handles, labels = axes_23[0, 0].get_legend_handles_labels()
  fig.legend(handles, labels, loc='outside upper center', ncols=4, fontsize=6)
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
