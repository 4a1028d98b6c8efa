"""Draws the credit error of each arm against b and against training age.

  python -m experiments.rollback_credit.plot    redraws figure.png, prints the README's numbers
"""

import pathlib

from matplotlib.figure import Figure
import numpy as np

from experiments.rollback import sweep
from grpo.study import frames
from grpo.study import plots
from grpo.study import stats

HERE = pathlib.Path(__file__).resolve().parent
SHOWN = (sweep.BASE, 'critic 0.95', 'critic 0.5', 'exact critic 0', *sweep.TREES,
         *sweep.CONTINUATIONS)
LABELS = dict(sign='wrong sign', rank='rank of actions', noise='noise over signal',
              step_cosine='cosine of one batch')


def seeds(rows, key: str) -> dict:
  """Seed -> mean of a measure over its rows."""
  found = {s: [r[key] for r in frames.where(rows, seed=s) if r[key] == r[key]]
           for s, in frames.unique(rows, 'seed')}
  return {s: float(np.mean(x)) for s, x in found.items() if x}


def less(rows, arm: str, rival: str, key: str) -> str:
  """Paired mean difference over seeds with a 95 % interval."""
  ours, theirs = (seeds(frames.where(rows, arm=a), key) for a in (arm, rival))
  d = stats.compare([np.array([ours[s] - theirs[s] for s in sorted(ours.keys() & theirs.keys())])])
  d = d.difference
  return f'{d.point:+.3f} [{d.low:+.3f}, {d.high:+.3f}]'


def findings(rows) -> dict[str, str]:
  """What the README states: means over seeds, and paired differences."""
  out, looks = {}, sorted({r['step'] for r in rows})
  for step in (looks[0], looks[-1]):
    for setting in (s for s, in frames.unique(rows, 'setting')):
      here = frames.where(rows, part='episode', step=step, setting=setting)
      for arm in SHOWN:
        mine = frames.where(here, arm=arm)
        for key in ('sign', 'noise', 'step_cosine', 'rank', 'bias'):
          found = list(seeds(mine, key).values())
          out[f'{key}, {arm}, {setting}, step {step:g}'] = f'{np.mean(found):.3f}' if found else '-'
      for arm, rival in (('vine_free', 'group'), ('vine', 'group'), ('spo_tree', 'group'),
                         ('treerl', 'group'), ('critic 0.95', 'group'), ('critic 0.5', 'group'),
                         ('vine_free', 'critic 0.95'), ('vine_free', 'critic 0.5')):
        for key in ('sign', 'step_cosine', 'noise'):
          out[f'{key}, {arm} less {rival}, {setting}, step {step:g}'] = less(here, arm, rival, key)
  turns = frames.where(rows, part='turn')
  for turn, in frames.unique(turns, 'turn'):
    here = frames.where(turns, turn=turn)
    for arm in ('spo_tree', 'treerl', 'vine_free'):
      out[f'rank, {arm} less group, turn {turn:g}'] = less(here, arm, 'group', 'rank')
  return out


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv in a folder: a row each for the first and the last look."""
  rows = frames.where(frames.read(pathlib.Path(folder) / 'results.csv'), part='episode')
  names = [s for s in sweep.SETTINGS if frames.where(rows, setting=s)]
  looks, look = sorted({r['step'] for r in rows}), plots.looks(
      [arm for arm in SHOWN if arm != 'tree_grpo'])
  fig, axes = plots.new(2, len(LABELS), width=7.2, height=2.1)
  for line, step in zip(axes, (looks[0], looks[-1]), strict=True):
    for ax, (key, label) in zip(line, LABELS.items(), strict=True):
      for i, (arm, style) in enumerate(look.items()):
        known = []
        for at, setting in enumerate(names):
          found = seeds(frames.where(rows, step=step, setting=setting, arm=arm), key)
          if found:  # a measure may be undefined in all seeds of a smoke run
            known.append((at, stats.bootstrap([np.array(list(found.values()))])))
        at = [x + 0.08 * (i - (len(look) - 1) / 2) for x, _ in known]
        point = [band.point for _, band in known]
        error = np.nan_to_num([[b.point - b.low for _, b in known],
                               [b.high - b.point for _, b in known]])
        ax.errorbar(at, point, np.maximum(error, 0), label=arm, capsize=1.5, linestyle='',
                    **{k: v for k, v in style.items() if k != 'linestyle'})
      ax.set_xticks(range(len(names)), [n.replace('undo ', 'b = ') for n in names], rotation=20)
      ax.set_title(f'{label}, step {step:g}', fontsize=7)
      if key == 'noise':
        plots.log_scale(ax)
  handles, labels = axes[0, 0].get_legend_handles_labels()
  fig.legend(handles, labels, loc='outside upper center', ncols=5, fontsize=6)
  return fig


if __name__ == '__main__':
  for what, number in findings(frames.read(HERE / 'results.csv')).items():
    print(f'{what:68} {number}')
  plots.save(figure(), HERE / 'figure.png')
