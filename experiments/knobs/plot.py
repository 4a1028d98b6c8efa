"""Draws the success of expert, random and trained policy against each knob, a row a task.

  python -m experiments.knobs.plot        redraws figure.png from results.csv beside this file
"""

import csv
import pathlib

from matplotlib.figure import Figure
import numpy as np

from grpo.study import plots

HERE = pathlib.Path(__file__).resolve().parent


def read(folder: str | pathlib.Path) -> list[dict]:
  """Rows of results.csv, with numbers where they are numbers."""
  with open(pathlib.Path(folder) / 'results.csv', newline='', encoding='utf-8') as file:
    rows = list(csv.DictReader(file))
  for row in rows:
    row.update({k: float(row[k]) for k in ('value', 'success', 'episodes', 'easy')})
  return rows


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder."""
  rows = read(folder)
  names = list(dict.fromkeys(row['task'] for row in rows))
  knobs = {name: list(dict.fromkeys(r['knob'] for r in rows if r['task'] == name))
           for name in names}
  look = plots.looks(list(dict.fromkeys(row['policy'] for row in rows)))
  columns = max(len(found) for found in knobs.values())
  fig, axes = plots.new(len(names), columns, width=1.25 * columns, height=1.5)
  for name, line in zip(names, axes, strict=True):
    for ax, knob in zip(line, knobs[name]):
      here = [r for r in rows if (r['task'], r['knob']) == (name, knob)]
      values = list(dict.fromkeys(r['value'] for r in here))
      for policy, style in look.items():
        found = {r['value']: r for r in here if r['policy'] == policy}
        # Values stand at equal distances: some grids are geometric, others linear.
        at = [i for i, value in enumerate(values) if value in found]
        score = np.array([found[values[i]]['success'] for i in at])
        count = np.array([found[values[i]]['episodes'] for i in at])
        error = 1.96 * np.sqrt(score * (1 - score) / count)
        ax.errorbar(at, score, error, label=policy, capsize=1.5, **style)
      # The value that was imitated, the easy case, is marked where it is not the first.
      if here[0]['easy'] in values[1:]:
        ax.axvline(values.index(here[0]['easy']), color='0.8', linewidth=0.8, zorder=0)
      ax.set_xticks(range(len(values)), [f'{v:g}' for v in values], rotation=60)
      ax.set_ylim(-0.04, 1.04)
      ax.set_xlabel(knob)
      ax.set_ylabel(name if ax is line[0] else '')
      if ax is not line[0]:
        ax.set_yticklabels([])
    for ax in line[len(knobs[name]):]:
      ax.remove()
  plots.legend(fig, axes[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
