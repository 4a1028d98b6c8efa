"""Draws success against the steps of a puzzle, and learning curves on the levels of training.

  python -m experiments.horizon.plot        redraws figure.png from the CSV files beside this one
"""

import pathlib

from matplotlib.figure import Figure

from experiments.horizon import sweep
from grpo.study import plots
from grpo.study import tables
from grpo.tasks import ladder

HERE = pathlib.Path(__file__).resolve().parent
_NAMES = dict(grpo='GRPO', grpo_dis='GRPO + mask', ppo='PPO', sao='SAO', chunked='chunks + critic',
              macro='GRPO, macro actions')


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv and curves.csv in a folder."""
  results, curves = tables.runs(folder, _NAMES)
  look = plots.looks([_NAMES[arm] for arm in sweep.ARMS])
  fig, axes_1N = plots.new(1, 2, width=6.8, height=2.6)
  left, right = axes_1N[0]
  plots.score_against(left, sweep.rows(results, curves), look, score=sweep.SCORE,
                      label='cells to fill')
  left.axvline(ladder.EMPTY[results[0]['horizon'] - 1], color='black', linewidth=0.8,
               linestyle=':')
  left.set_title('each level, after training up to the dotted line')
  left.set_ylabel('success on held-out boards')
  plots.learning_curves(right, curves, look)
  right.set_title('levels of training')
  for ax in (left, right):
    ax.set_ylim(-0.02, 1.02)
  plots.legend(fig, left)
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
