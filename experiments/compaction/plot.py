"""Draws learning curves with compaction, and the same policies tested with and without it.

  python -m experiments.compaction.plot        redraws figure.png from the CSV files beside this one
"""

import pathlib

from matplotlib.figure import Figure

from experiments.compaction import sweep
from grpo.study import plots
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_NAMES = dict(rollouts='GRPO, rollouts', segments='GRPO, windows', ppo='PPO',
              ppo_token='+ token loss', cross_rollout='+ cross GAE, rollout',
              cross_segment='+ cross GAE, window', untrained='summaries untrained',
              keep_last='last turns only')


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv and curves.csv in a folder."""
  results, curves = tables.runs(folder, _NAMES)
  look = plots.looks(list(_NAMES.values()))
  fig, axes_1N = plots.new(1, 2, width=7.4, height=3.0)
  left, right = axes_1N[0]
  plots.learning_curves(left, curves, look)
  left.set_title('with compaction, while training')
  left.set_ylabel('success')
  plots.score_against(right, sweep.rows(results, curves), look, x='windows', score=sweep.SCORE,
                      label='windows that hold an episode')
  right.set_title('after training')
  for ax in (left, right):
    ax.set_ylim(-0.02, 1.02)
  handles, labels = left.get_legend_handles_labels()
  fig.legend(handles, labels, loc='outside upper center', ncols=4)  # eight do not fit in a row
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
