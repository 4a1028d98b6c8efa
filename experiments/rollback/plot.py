"""Draws success over training in each setting, and below it how far branching is from the critic.

  python -m experiments.rollback.plot        redraws figure.png, prints the numbers of the README
"""

import dataclasses
import pathlib

from matplotlib.figure import Figure
import numpy as np

from experiments.rollback import sweep
from grpo.study import frames
from grpo.study import plots
from grpo.study import stats
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
BRANCHING = (*sweep.TREES, *sweep.CONTINUATIONS)
# A tree of two, four and eight branches plays 28 different turns of 48, and a sample with one
# continuation from each of six turns 27 of 42: where shared turns are played once, the others have
# had 0.6 of their steps when branching has had all. Or they have played 4 of 7 prompts at each.
ONCE = 0.6


@dataclasses.dataclass(frozen=True)
class Budget:
  """What branching is held against."""
  share: float            # of the rival's steps
  arms: tuple[str, ...] = BRANCHING[:-1]  # of branching
  instead: str = ''       # ending of the arm that stands for the rival


BUDGETS = dict(counted=Budget(1.0), once=Budget(ONCE), less=Budget(1.0, instead='_less'),
               free=Budget(1.0, arms=BRANCHING[-1:]),
               few=Budget(1.0, arms=('vine', 'vine_few'), instead='_few'))
_MARKS = dict(counted=(-0.25, 'full'), once=(0.0, 'none'), less=(0.25, 'left'), free=(0.0, 'full'))


def scores(curves, share: float) -> dict:
  """(arm, setting) -> seed -> success at that share of the steps."""
  last, out = max(r['step'] for r in curves), {}
  at = min({r['step'] for r in curves}, key=lambda step: abs(step - share * last))
  for row in frames.where(curves, step=at):
    out.setdefault((row['arm'], row['setting']), {})[row['seed']] = row['success']
  return out


def differences(ours, theirs) -> np.ndarray:
  """Of paired seeds."""
  return np.array([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])


def critic(curves) -> str:
  """The critic that branching is held against: the better one in the mean over all runs."""
  last = scores(curves, 1.0)
  mean = lambda arm: np.mean([list(v.values()) for (a, _), v in last.items() if a == arm])
  return max(sweep.CRITICS, key=mean)


def comparisons(curves, rival: str, budget: Budget) -> dict[str, dict[str, stats.Comparison]]:
  """Branching arm -> setting, and 'all' -> its paired comparison with a rival at that budget."""
  ours, theirs = scores(curves, 1.0), scores(curves, budget.share)
  if budget.instead:
    rival = rival.split()[0] + budget.instead
  known, out = {arm for arm, _ in ours}, {}
  for arm in (a for a in budget.arms if {a, rival} <= known):  # smoke has no controls
    each = {setting: differences(ours[arm, setting], theirs[rival, setting])
            for a, setting in ours if a == arm}
    out[arm] = {s: stats.compare([d]) for s, d in each.items()}
    # Settings share their seeds: a seed counts once, with its mean over settings.
    out[arm]['all'] = stats.compare([np.mean(list(each.values()), axis=0)])
  return out


def _texts(rival, found):
  """Paired mean differences; p over all settings, corrected over the arms of a budget."""
  out = {}
  for name in BUDGETS:
    mine = {arm: each for (budget, arm), each in found.items() if budget == name}
    corrected = stats.holm([each['all'].p for each in mine.values()])
    for (arm, each), p in zip(mine.items(), corrected, strict=True):
      out[f'visible, {arm} and {rival}, {name}'] = f'{each["all"].visible:.3f}'
      for setting, c in each.items():
        d = c.difference
        out[f'{arm} less {rival}, {name}, {setting}'] = (
            f'{d.point:+.3f} [{d.low:+.3f}, {d.high:+.3f}]' + (
                f', p {"< 0.001" if p < 0.001 else f"= {p:.3f}"}' if setting == 'all' else ''))
  return out


def findings(curves) -> dict[str, str]:
  """What the README states: paired mean differences, 95 % intervals, p after Holm over arms."""
  best, out = critic(curves), {}
  out['critic'] = best
  for (arm, setting), runs in scores(curves, 1.0).items():
    out[f'{arm}, {setting}'] = f'{np.mean(list(runs.values())):.3f}'
  for rival in (best, sweep.BASE):
    found = {(name, arm): each for name, budget in BUDGETS.items()
             for arm, each in comparisons(curves, rival, budget).items()}
    out |= _texts(rival, found)
  last = scores(curves, 1.0)
  gap = lambda arm, rival, setting: differences(last[arm, setting], last[rival, setting])
  for arm, rival in (*((arm, best) for arm in BRANCHING), ('vine_few', 'critic_few')):
    for setting in ('undo 1', 'undo 0, hidden'):
      if {(arm, setting), (arm, 'undo 0')} <= last.keys():
        d = stats.compare([gap(arm, rival, setting) - gap(arm, rival, 'undo 0')]).difference
        out[f'{arm} less {rival}, {setting} less undo 0'] = (
            f'{d.point:+.3f} [{d.low:+.3f}, {d.high:+.3f}]')
  return out


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from curves.csv in a folder: below, budgets `counted` and `free` are full marks,
  `once` is empty and `less` half full."""
  curves = tables.read(pathlib.Path(folder) / 'curves.csv')
  names = [s for s in sweep.SETTINGS if frames.where(curves, setting=s)]
  arms = [arm for arm, in frames.unique(curves, 'arm') if arm not in sweep.LESS | sweep.FEW]
  look, best = plots.looks(arms), critic(curves)
  fig, axes = plots.new(2, len(names), width=7.2, height=2.1)
  found = {name: comparisons(curves, best, BUDGETS[name]) for name in _MARKS}
  for top, low, setting in zip(axes[0], axes[1], names, strict=True):
    plots.learning_curves(top, frames.where(curves, setting=setting), look)
    top.set_title(setting)
    top.set_ylim(0, 1)
    for name, each in found.items():
      for arm, settings in each.items():
        d = settings[setting].difference
        error = np.nan_to_num([[d.point - d.low], [d.high - d.point]])
        shift, fill = _MARKS[name]
        low.errorbar([d.point], [BRANCHING.index(arm) + shift], xerr=error, linestyle='',
                     capsize=2, **look[arm] | dict(fillstyle=fill, markersize=4))
    low.axvline(0, color='black', linewidth=0.8)
    low.set_yticks(range(len(BRANCHING)), BRANCHING if low is axes[1, 0] else [])
    low.invert_yaxis()
    low.set_xlabel(f'less {best}')
  plots.legend(fig, axes[0, 0])
  return fig


if __name__ == '__main__':
  for what, number in findings(tables.read(HERE / 'curves.csv')).items():
    print(f'{what:56} {number}')
  plots.save(figure(), HERE / 'figure.png')
