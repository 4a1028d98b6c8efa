"""Draws which fault was named for which case.

  python -m experiments.broken.plot        redraws figure.png from the results beside this file
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
  cases = [c for c, in frames.unique(rows, 'case')]
  named = [f for column in ('fault', 'flagged') for f, in frames.unique(rows, column)]
  faults = list(dict.fromkeys(['none', *named]))
  fig, ((ax,),) = plots.new(1, 1, width=5.2, height=0.8 + 0.14 * len(cases))
  for r in rows:
    line = cases.index(r['case'])
    ax.plot(faults.index(r['flagged']), line, 'o' if r['right'] else 'X', markersize=5,
            color='#009E73' if r['right'] else '#D55E00')
    ax.plot(faults.index(r['fault']), line, 's', fillstyle='none', color='black', markersize=8,
            markeredgewidth=0.6)
  ax.set_xticks(range(len(faults)), faults, rotation=30, ha='right', fontsize=6)
  ax.set_yticks(range(len(cases)), cases, fontsize=6)
  ax.invert_yaxis()
  ax.set_title('named (dots) and injected (squares)')
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
