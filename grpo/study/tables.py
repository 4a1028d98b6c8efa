"""Tables of an experiment, made from results.csv and curves.csv and nothing else.

A block is one (task, setting): its arms with their score, cost and probability of improvement over
the base arm, then one sentence for each comparison, which may well say "not distinguishable".
"""

from collections.abc import Mapping, Sequence
import dataclasses
import difflib
import math
import pathlib
from typing import Any

import numpy as np

from grpo.study import frames
from grpo.study import stats

__all__ = ['NOTES', 'WORDS', 'Line', 'Block', 'read', 'runs', 'unique', 'blocks',
           'equal_flops', 'text', 'markdown']

NOTES = ('IQM: interquartile mean over seeds, 95 % bootstrap interval. P(better): chance of a '
         'higher\nscore than the base arm under the same seed; ties count half. Sentences are of '
         'the mean of paired\ndifferences, which counts the best and the worst runs that an IQM '
         'leaves out: the two can disagree.\nOver all settings the runs of a seed count as '
         'independent; where they are not, intervals are too narrow.')

WORDS = ('better', 'worse')

Row = Mapping[str, Any]
_COSTS = ('rollouts', 'tokens_sampled', 'tokens_trained', 'policy_flops', 'critic_flops')
_KEYS = ('arm', 'task', 'setting', 'seed')
_COLUMNS = {'results.csv': (*_KEYS, 'steps', *_COSTS), 'curves.csv': (*_KEYS, 'step', 'success')}
_HEADER = ('arm', 'seeds', 'IQM [95 %]', 'P(better)', 'rollouts', 'tokens sampled',
           'tokens trained', 'policy FLOPs', 'critic FLOPs')


@dataclasses.dataclass(frozen=True)
class Line:
  """One arm in one setting."""
  arm: str
  seeds: int
  score: stats.Interval              # interquartile mean, bootstrap interval
  improvement: stats.Interval | None  # P(better than the base under the same seed); None for base
  costs: Mapping[str, float]         # mean over seeds of each counter
  sentence: str                      # the comparison in words; '' for the base arm


@dataclasses.dataclass(frozen=True)
class Block:
  """All arms of one setting."""
  title: str
  lines: Sequence[Line]
  visible: str                       # what this number of seeds can see


def read(path: str | pathlib.Path) -> list[dict[str, Any]]:
  """Rows of results.csv or curves.csv of a sweep. Raises ValueError for what cannot be read."""
  rows = frames.read(path)
  _need(rows, _COLUMNS.get(pathlib.Path(path).name, ()), str(path))
  return rows


def runs(folder: str | pathlib.Path, names: Mapping[str, str]) -> tuple[list[dict[str, Any]], ...]:
  """Rows of results.csv and of curves.csv of a folder; arms that have a longer name get it."""
  found = tuple(read(pathlib.Path(folder, file)) for file in ('results.csv', 'curves.csv'))
  for row in (row for rows in found for row in rows):
    row['arm'] = names.get(row['arm'], row['arm'])
  return found


def _need(rows, columns, where):
  """Raises ValueError, with all columns that are needed, if some row lacks one."""
  missing = [c for c in columns if any(c not in row for row in rows)]
  if missing:
    raise ValueError(f'{where} has no column {", ".join(missing)}; needs {", ".join(columns)}')


def _need_scores(rows, score):
  """Raises ValueError, with arm, setting and seed, if a score is not a finite number."""
  for r in rows:
    if isinstance(r[score], str) or not math.isfinite(r[score]):
      where = ', '.join(f'{k} {r[k]}' for k in (*_KEYS, 'step') if k in r)
      raise ValueError(f'{where}: {score} is {r[score]!r}, not a number')


unique = frames.unique


def _scores(rows, arm, setting, score):
  """Seed -> score of one arm in one setting."""
  return {r['seed']: r[score] for r in rows
          if r['arm'] == arm and (r['task'], r['setting']) == setting}


def _signed(x):
  return f'{x:+.3f}'


def _interval(x, form):
  if np.isnan(x.low):
    return f'{form(x.point)} [no interval]'
  return f'{form(x.point)} [{form(x.low)}, {form(x.high)}]'


def _p(p):
  return '< 0.001' if p < 0.001 else f'= {p:.3f}'


def _sentence(arm, base, title, comparison, corrected, settings, words):
  """One comparison in words."""
  word = stats.verdict(comparison, corrected)
  word = dict(zip(WORDS, words, strict=True)).get(word, word)
  head = f'{arm} is {word} {"from" if word.startswith("not") else "than"} {base} on {title}'
  if comparison.pairs == 0:
    return head + ': they share no finished seed.'
  if math.isnan(comparison.p):
    return head + ': one pair of runs says nothing about spread.'
  seeds = f'{comparison.pairs} paired {"runs" if settings > 1 else "seeds"}'
  if comparison.visible == 0.0 and comparison.difference.point == 0.0:
    return f'{head}: all {seeds} score the same.'
  out = (f'{head}: {_interval(comparison.difference, _signed)} '
         f'({seeds}, p {_p(corrected)} after Holm)')
  if word.startswith('not'):
    out += f'; a true {comparison.visible:.3f} would show in 4 of 5 such experiments'
  return out + '.'


def _visible(rows, settings, arms, score):
  """What the seeds can see without pairing, in spreads and in units of the score."""
  samples = [list(_scores(rows, a, s, score).values()) for s in settings for a in arms]
  samples = [x for x in samples if len(x) > 1]
  if not samples:
    return 'One seed an arm: no effect of any size can be told from chance.'
  n = min(map(len, samples))
  spread = math.sqrt(np.mean([np.var(x, ddof=1) for x in samples]))
  effect = stats.minimum_effect(n)
  where = ' in one of the settings' if len(settings) > 1 else ''
  return (f'{n} seeds an arm see{where} an unpaired effect of {effect:.1f} seed spreads, here '
          f'{effect * spread:.3f} (5 % two-sided, 80 % power).')


def _block(rows, title, settings, arms, base, score, family):
  """A block without its sentences, and the comparisons they are made from."""
  pooled = {a: [np.array(list(_scores(rows, a, s, score).values())) for s in settings]
            for a in arms}
  lines, comparisons = [], []
  for arm in arms:
    chance, comparison = None, None
    if arm != base:
      differences = []
      for s in settings:
        x, y = _scores(rows, arm, s, score), _scores(rows, base, s, score)
        differences.append(np.array([x[k] - y[k] for k in sorted(x.keys() & y.keys())]))
      comparison = stats.compare(differences, family=family)
      if comparison.pairs and all(len(d) for d in differences):
        chance = stats.paired_improvement(differences)
    mine = [r for r in rows if r['arm'] == arm and (r['task'], r['setting']) in settings]
    costs = {k: float(np.mean([r[k] for r in mine])) for k in _COSTS}
    strata = [x for x in pooled[arm] if len(x)]
    lines.append(Line(arm, len(unique(mine, 'seed')), stats.bootstrap(strata), chance, costs, ''))
    comparisons.append(comparison)
  return Block(title, lines, _visible(rows, settings, arms, score)), comparisons, len(settings)


def _correct(drafts, base, words):
  """Fills in the sentences of blocks whose comparisons are one family."""
  flat = [c.p for _, comparisons, _ in drafts for c in comparisons if c]
  corrected = iter(stats.holm(flat))
  out = []
  for block, comparisons, settings in drafts:
    lines = [line if c is None else dataclasses.replace(line, sentence=_sentence(
        line.arm, base, block.title, c, next(corrected), settings, words))
             for line, c in zip(block.lines, comparisons, strict=True)]
    out.append(dataclasses.replace(block, lines=lines))
  return out


def blocks(rows: Sequence[Row], *, base: str, score: str = 'success_last',
           words: tuple[str, str] = WORDS) -> list[Block]:
  """All settings, then all of them together where every arm has run in each.

  Holm's correction covers the comparisons of all settings as one family; the comparisons over all
  settings together are a second one.

  Args:
    rows: of results.csv.
    base: arm that the others are compared with.
    score: column that is compared, fixed before the run.
    words: for more and for less of it, such as longer and shorter.

  Raises:
    ValueError: the rows lack a column, a score is not a number, or no row is of the base arm.
  """
  _need(rows, (*_KEYS, score, *_COSTS), 'results.csv')
  _need_scores(rows, score)
  arms = [a for a, in unique(rows, 'arm')]
  if base not in arms:
    near = difflib.get_close_matches(base, arms, n=1, cutoff=0.5)
    hint = f'did you mean {near[0]!r}?' if near else f'there are {", ".join(arms)}'
    raise ValueError(f'no rows of the base arm {base!r}: {hint}')
  settings = unique(rows, 'task', 'setting')
  present = set(unique(rows, 'arm', 'task', 'setting'))
  drafts, family = [], max(1, sum(a != base for a, *_ in present))
  for setting in settings:
    here = [a for a in arms if (a, *setting) in present]
    title = ' / '.join(dict.fromkeys(setting))
    drafts.append(_block(rows, title, [setting], here, base, score, family))
  out = _correct(drafts, base, words)
  if len(settings) > 1 and len(present) == len(arms) * len(settings):
    out += _correct([_block(rows, 'all settings', settings, arms, base, score,
                            max(1, len(arms) - 1))], base, words)
  return out


def equal_flops(curves: Sequence[Row], rows: Sequence[Row]) -> list[dict[str, Any]]:
  """Rows with `success_flops`: success when every run of a setting has spent the same FLOPs.

  The budget is that of the cheapest run of the setting, policy and critic together. FLOPs and all
  other counters are taken to grow evenly with steps, and success between two evaluations linearly.

  Args:
    curves: rows of curves.csv.
    rows: rows of results.csv.

  Returns:
    The rows of results.csv with that column, their counters those of that moment.
  """
  _need(curves, _COLUMNS['curves.csv'], 'curves.csv')
  _need(rows, _COLUMNS['results.csv'], 'results.csv')
  _need_scores(curves, 'success')
  runs, budget = {}, {}
  for c in curves:
    runs.setdefault((c['arm'], c['task'], c['setting'], c['seed']), []).append(
        (c['step'], c['success']))
  total = lambda r: r['policy_flops'] + r['critic_flops']
  for r in rows:
    if (key := tuple(r[k] for k in _KEYS)) not in runs:
      raise ValueError(f'curves.csv has no row of {", ".join(map(str, key))}, as results.csv has')
    setting = r['task'], r['setting']
    budget[setting] = min(budget.get(setting, math.inf), total(r))
  out = []
  for r in rows:
    steps, success = zip(*sorted(runs[r['arm'], r['task'], r['setting'], r['seed']]), strict=True)
    # A table for a policy multiplies nothing.
    share = budget[r['task'], r['setting']] / total(r) if total(r) else 1.0
    spent = {k: share * r[k] for k in _COSTS}
    out.append(r | spent | {
        'success_flops': float(np.interp(share * r['steps'], steps, success))})
  return out


def _big(x):
  """A count with three digits and a unit."""
  for size, unit in ((1e15, 'P'), (1e12, 'T'), (1e9, 'G'), (1e6, 'M'), (1e3, 'k')):
    if abs(x) >= size:
      return f'{x / size:.3g}{unit}'
  return f'{x:.3g}'


def _cells(line):
  score = lambda x: f'{x:.3f}'
  chance = '' if line.improvement is None else _interval(line.improvement, lambda x: f'{x:.2f}')
  return (line.arm, str(line.seeds), _interval(line.score, score), chance,
          *(_big(line.costs[k]) for k in _COSTS))


def text(made: Sequence[Block]) -> str:
  """Tables for a terminal."""
  out = []
  for block in made:
    table = [_HEADER, *map(_cells, block.lines)]
    widths = [max(len(row[i]) for row in table) for i in range(len(_HEADER))]
    out.append(block.title)
    for row in table:
      aligned = [x.ljust(w) if i in (0, 2, 3) else x.rjust(w)
                 for i, (x, w) in enumerate(zip(row, widths, strict=True))]
      out.append(('  ' + '  '.join(aligned)).rstrip())
    out += [f'  {line.sentence}' for line in block.lines if line.sentence]
    out += [f'  {block.visible}', '']
  return '\n'.join(out)


def markdown(made: Sequence[Block]) -> str:
  """The same tables in Markdown."""
  out = []
  for block in made:
    out += [f'### {block.title}', '', '| ' + ' | '.join(_HEADER) + ' |',
            '|' + '---|' * len(_HEADER)]
    out += ['| ' + ' | '.join(_cells(line)) + ' |' for line in block.lines]
    out += ['', *(f'- {line.sentence}' for line in block.lines if line.sentence),
            f'- {block.visible}', '']
  return '\n'.join(out)
