"""Draws the share of informative groups, and what both families learn from them.

  python -m experiments.coverage.plot        redraws figure.png from the results beside this file
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
  fig, ((left, middle, right),) = plots.new(1, 3, height=2.4)
  share = frames.where(rows, part='share')
  at = range(len(share))
  left.plot(at, [r['analytic'] for r in share], 'k_', markersize=14, label='1 - p^n - (1-p)^n')
  left.errorbar(at, [r['measured'] for r in share], [2 * r['se'] for r in share], fmt='o',
                color='#0072B2', label='played')
  left.set_xticks(at, [f"q {r['right']:g}\nH {r['horizon']:g}" for r in share], fontsize=5.5)
  left.set_ylabel('informative groups of 8')
  left.legend()
  learned = frames.where(rows, part='learn')
  arms = [arm for arm, in frames.unique(learned, 'arm')]
  plots.score_against(middle, learned, plots.looks(arms), score='success', label='turns H')
  start = frames.unique(learned, 'horizon', 'start')
  middle.plot([h for h, _ in start], [s for _, s in start], 'k:', label='at the start')
  middle.set_ylabel('success after training')
  middle.legend(fontsize=5.5)
  snr = frames.where(rows, part='snr')
  right.bar(range(len(snr)), [r['snr'] for r in snr], yerr=[r['se'] for r in snr],
            color='#009E73')
  right.set_xticks(range(len(snr)), [r['arm'].replace(', ', '\n') for r in snr], fontsize=5.5)
  right.set_ylabel('SNR, one decisive step')
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
