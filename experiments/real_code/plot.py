"""Draws how often a small model earns a reward, and how many groups tell anything.

Left: share of answers with reward, Wilson intervals over answers; and of those with success, and
with a block of Python. Right: share of groups of n that are informative, for every n up to the
number of samples, without replacement: 1 - [C(c, n) + C(N - c, n)] / C(N, n).

  python -m experiments.real_code.plot        redraws figure.png from the results beside this file
"""

import math
import pathlib

from matplotlib.figure import Figure
import numpy as np

from grpo.study import frames
from grpo.study import plots
from grpo.study import stats

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {'humaneval': 'HumanEval', 'sums, whole answer': 'sums, whole answer',
         'sums, last number': 'sums, last number',
         'sums of two, last number': 'sums of two'}
COUNTS = dict(rewarded='reward', solved='success', ended='ended by the model')


def rate(rows, column: str) -> tuple[float, float, float]:
  """(share of answers, low, high); Wilson 95 %."""
  count, total = (int(sum(r[k] for r in rows)) for k in (column, 'samples'))
  return count / total, *map(float, stats.wilson(count / total, total))


def informative(rows, n: int) -> float:
  """Share of groups of n, drawn from the answers to a problem, that differ in reward."""
  flat = [(math.comb(int(r['rewarded']), n) + math.comb(int(r['samples'] - r['rewarded']), n))
          / math.comb(int(r['samples']), n) for r in rows]
  return float(1.0 - np.mean(flat))


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder."""
  rows = frames.read(pathlib.Path(folder) / 'results.csv')
  sources = [source for source, in frames.unique(rows, 'source')]
  look = plots.looks(sources)
  fig, ((left, right),) = plots.new(1, 2, width=6.0, height=2.5)
  for i, source in enumerate(sources):
    mine, colour = frames.where(rows, source=source), look[source]['color']
    for j, column in enumerate(COUNTS):
      mean, low, high = rate(mine, column)
      left.errorbar([j + 0.2 * i], [mean], [[max(mean - low, 0)], [max(high - mean, 0)]], fmt='o',
                    color=colour, label=None if j else NAMES[source])
    sizes = range(2, int(mine[0]['samples']) + 1)
    right.plot(sizes, [informative(mine, n) for n in sizes], label=NAMES[source], **look[source])
  left.set_xticks([j + 0.1 for j in range(len(COUNTS))], list(COUNTS.values()))
  left.set_ylabel('share of answers')
  right.set_xticks(list(sizes))
  right.set_xlabel('answers in a group')
  right.set_ylabel('informative groups')
  for ax in (left, right):
    ax.set_ylim(-0.02, 1.02)
  plots.legend(fig, right)
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
