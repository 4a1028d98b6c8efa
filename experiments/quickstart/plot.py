"""Draws the quickstart: learning curves of each setting, and the last score against the horizon.

  python -m experiments.quickstart.plot        redraws figure.png from the CSV files beside this one
"""

import pathlib

from matplotlib.figure import Figure

from grpo.study import plots
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_NAMES = dict(grpo='GRPO', grpo_dis='GRPO + mask', ppo='PPO', sao='SAO')


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv and curves.csv in a folder."""
  rows, curves = tables.runs(folder, _NAMES)
  look = plots.looks([arm for arm, in tables.unique(rows, 'arm')])
  settings = tables.unique(rows, 'task', 'setting')
  fig, axes_1N = plots.new(1, len(settings) + 1, width=2.0 * (len(settings) + 1), height=2.3)
  for ax, (task, setting) in zip(axes_1N[0], settings, strict=False):
    here = [c for c in curves if (c['task'], c['setting']) == (task, setting)]
    plots.learning_curves(ax, here, look, y='success')
    ax.set_title(f'{task}, {setting}')
    ax.set_ylim(-0.02, 1.02)
    ax.set_ylabel('success' if ax is axes_1N[0, 0] else '')
  last = axes_1N[0, -1]
  plots.score_against(last, [r for r in rows if r['task'] == 'horizon'], look,
                      label='turns of an episode')
  last.set_title('after the last step')
  last.set_ylim(-0.02, 1.02)
  last.set_ylabel('')
  plots.legend(fig, axes_1N[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
