"""Draws length at the end over the start, success and held-out gap of each arm in each setting.

  python -m experiments.brevity.plot        redraws figure.png, prints the numbers of the README
"""

from collections.abc import Iterator
import itertools
import pathlib

from matplotlib.figure import Figure
import numpy as np

from experiments.brevity import sweep
from grpo.study import frames
from grpo.study import plots
from grpo.study import stats
from grpo.study import tables

HERE = pathlib.Path(__file__).resolve().parent
_PANELS = {sweep.SCORE: 'length, end / start', 'success_last': 'success, last step',
           'gap': 'training - held out'}
_SEEN = ('length/tokens_last', 'clone_pass_rate', 'success_last', 'gap', 'ratio/mask_fraction_last',
         'group/kept_last', 'stale/lag_last')


def read(folder: str | pathlib.Path = HERE) -> list[dict]:
  """Rows of a folder with the score and the gap."""
  results, curves = (tables.read(pathlib.Path(folder) / f) for f in ('results.csv', 'curves.csv'))
  return sweep.rows(results, curves)


def contrasts(rows) -> Iterator[tuple[str, stats.Comparison]]:
  """Paired differences that the README states: (what less what, comparison)."""
  known, held = {}, {r['setting'] for r in rows if r['gap'] != 0}
  for r in rows:
    known.setdefault((r['arm'], r['setting']), {})[r['seed']] = r

  def less(column, one, other):
    """Nothing where one of them is missing, and nothing against itself."""
    if one == other or not {one, other} <= known.keys():
      return None
    return np.array([known[one][s][column] - known[other][s][column] for s in sorted(known[one])])

  settings = list(dict.fromkeys(s for _, s in known))
  columns = (sweep.SCORE, 'success_last', 'gap')
  for column, setting, arm in itertools.product(columns, settings, sweep.ARMS):
    if column == 'gap' and setting not in held:
      continue
    here = arm, setting
    pairs = [(here, (sweep.BASE, setting)), ((f'{arm} admission', setting), here)]
    pairs += [(here, (arm, setting.replace(x, y))) for x, y in (
        ('by length', 'in step'), ('limit', 'by length'), ('hard sums', 'sums'))]
    for one, other in pairs:
      if (d := less(column, one, other)) is not None:
        yield f'{column}: {", ".join(one)} less {", ".join(other)}', stats.compare([d])
  for setting, arm in itertools.product(settings, sweep.ARMS):
    step = setting.replace('by length', 'in step')
    ours, base = (less(sweep.SCORE, (x, setting), (x, step)) for x in (arm, sweep.BASE))
    if ours is not None and arm != sweep.BASE:
      yield f'{setting} less in step, {arm} less {sweep.BASE}', stats.compare([ours - base])


def findings(rows) -> dict[str, str]:
  """What the README states: interquartile means, means, paired mean differences, 95 % intervals."""
  out = {}
  for arm, setting in frames.unique(rows, 'arm', 'setting'):
    mine = frames.where(rows, arm=arm, setting=setting)
    ratio = stats.bootstrap([np.array([r[sweep.SCORE] for r in mine])])
    means = [f'{c} {np.nanmean([r[c] for r in mine]):.3f}' for c in _SEEN]
    lost = sum(r['success_last'] < r['clone_pass_rate'] / 2 for r in mine)
    out[f'{setting}: {arm}'] = (
        f'{ratio.point:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]; {", ".join(means)}; '
        f'{lost} runs end below half of their clone')
  for name, c in contrasts(rows):
    d = c.difference
    out[name] = f'{d.point:+.3f} [{d.low:+.3f}, {d.high:+.3f}], p = {c.p:.4f}'
  return out


@plots.styled
def figure(folder: str | pathlib.Path = HERE) -> Figure:
  """The figure, from results.csv and curves.csv in a folder; settings stand side by side.

  One-digit sums of two numbers hold nothing out and have no gap.
  """
  rows = read(folder)
  settings = list(dict.fromkeys(r['setting'] for r in rows))
  rows = [r | dict(place=2**settings.index(r['setting'])) for r in rows]
  look = plots.looks(list(dict.fromkeys(r['arm'] for r in rows)))
  fig, axes_N1 = plots.new(len(_PANELS), 1, width=8.4, height=1.9)
  for ax, (column, name) in zip(axes_N1[:, 0], _PANELS.items(), strict=True):
    shown = [r for r in rows if column != 'gap' or not r['setting'].startswith('sums')]
    plots.score_against(ax, shown, {k: v | dict(linestyle='none') for k, v in look.items()},
                        x='place', score=column)
    ax.set_xlabel('')
    ax.set_ylabel(name)
    ax.set_xlim(2**-0.5, 2**(len(settings) - 0.5))
    ax.set_xticks([2**i for i in range(len(settings))],
                  [s.replace(', rate', ',\nrate') for s in settings], fontsize=6)
  axes_N1[0, 0].axhline(1.0, color='0.7', linewidth=0.6, zorder=0)
  plots.legend(fig, axes_N1[0, 0])
  return fig


if __name__ == '__main__':
  plots.save(figure(), HERE / 'figure.png')
  print('\n'.join(f'{name}: {value}' for name, value in findings(read()).items()))
