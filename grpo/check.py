"""Refuses a config that cannot work, before anything is computed: one line, what and where.

Reads the nested dicts that `build.plain` makes. Every rule is a line of `rules`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax

from grpo import ranges
from grpo import slotted
from grpo import types
from grpo.rollout import staleness
from grpo.tasks import interventions

__all__ = ['check', 'rules', 'training']

# Tasks that have a potential, and those with an answer of one token.
POTENTIAL = ('horizon', 'ladder', 'keychain', 'sokoban')
ANSWER = ('meeting', 'triage')
ONE_TURN = ('arithmetic', 'countdown', 'programs', 'chat_sums', 'text')


def check(c: Mapping[str, Any], settings: Mapping[str, Any] | None = None,
          seeds: int = 1) -> None:
  """Raises a ValueError with the first rule that is broken.

  Args:
    c: nested dicts of a config.
    settings: dotted path -> values along the seed axis, see learn/loop.py.
    seeds: length of that axis.
  """
  for path, values in (settings or {}).items():
    if any(isinstance(value, float) and value != value for value in values):
      raise ValueError(f'settings {path}: must be numbers, got nan')
    if len(values) != seeds:
      raise ValueError(f'settings {path}: {len(values)} values for {seeds} seeds')
  knobs = {path.removeprefix('task.'): values for path, values in (settings or {}).items()
           if path.startswith('task.')}
  for task in ({**c['task'], **{k: values[i] for k, values in knobs.items()}}
               for i in range(seeds if knobs else 0)):
    for broken, message in _task(task):
      if broken:
        raise ValueError(f'settings: {message}')
  for broken, message in rules(c):
    if broken:
      raise ValueError(message)


def training(c: Mapping[str, Any], layout: types.Layout, changed: Iterable[str] = ()) -> None:
  """Raises a ValueError if fields would do nothing in a run that trains.

  Elsewhere they may stand: a policy that writes summaries can be tested in one window.

  Args:
    c: nested dicts of a config.
    layout: of its task.
    changed: dotted paths of settings.
  """
  w, t, one = c['window'], c['task'], layout.segments == 1
  says = f'an episode of {layout.max_turns} turns is one window (window.turns={w["turns"]})'
  horizon = t.get('horizon')  # an episode of tasks that have it takes no more turns
  if (not one and slotted.number(horizon) and horizon <= layout.turns + layout.carry
      and 'horizon' not in c['schedule'] and 'task.horizon' not in changed):
    one, says = True, (f'an episode of task.horizon={horizon} turns is one window (window.turns='
                       f'{w["turns"]}, window.carry={w["carry"]})')
  if one and w['summary'] and w['compactions'] != 0:
    raise ValueError(f'window.summary={w["summary"]} is never written: {says}; lower window.turns, '
                     'or use window.summary=0; window.compactions=0 says that one window is meant')
  if one and w['compactions'] > 0:
    raise ValueError(f'window.compactions={w["compactions"]} limits nothing: {says}; lower '
                     'window.turns, or use -1')


def rules(c: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
  """Pairs of (broken, what to tell the user)."""
  yield from slotted.shapes(c)
  yield from ranges.rules(c)
  m, s, u, k, a = (c[x] for x in ('method', 'sample', 'train', 'checkpoint', 'audit'))
  for path, value, low in (
      ('steps', c['steps'], 1), ('log_every', c['log_every'], 1),
      ('sample.prompts', s['prompts'], 1), ('sample.group', s['group'], 1),
      ('sample.lag', s['lag'], 0), ('sample.over', s['over'], 1),
      ('sample.greedy', s['greedy'], 0),
      ('sample.reference', s['reference'], 0),
      ('train.epochs', u['epochs'], 1),
      ('train.minibatches', u['minibatches'], 1), ('train.micro', u['micro'], 1),
      ('train.warmup', u['warmup'], 0), ('mesh.data', c['mesh']['data'], 1),
      ('mesh.model', c['mesh']['model'], 1), ('checkpoint.every', k['every'], 1),
      ('checkpoint.keep', k['keep'], 1), ('evaluate.prompts', c['evaluate']['prompts'], 1),
      ('evaluate.group', c['evaluate']['group'], 1), ('clone.steps', c['clone']['steps'], 0),
      ('clone.every', c['clone']['every'], 1), ('clone.prompts', c['clone']['prompts'], 1),
      ('window.turns', c['window']['turns'], 1),
      ('method.reference_every', m['reference_every'], 0), ('audit.every', a['every'], 0),
      ('audit.prompts', a['prompts'], 1), ('audit.group', a['group'], 2),
      ('audit.batches', a['batches'], 2),
  ):
    yield value < low, f'{path}: must be at least {low}, got {value}'
  yield c['steps'] % c['log_every'] != 0, (
      f'log_every={c["log_every"]} must divide steps={c["steps"]}')
  yield k['every'] % c['log_every'] != 0, (
      f'checkpoint.every={k["every"]} must be a multiple of log_every={c["log_every"]}')
  yield a['every'] % c['log_every'] != 0, (
      f'audit.every={a["every"]} must be a multiple of log_every={c["log_every"]}, or 0 for none')
  yield a['estimators'] not in ('near', 'all'), (
      f'audit.estimators: allowed are near and all, got {a["estimators"]}')
  yield from _window(c)
  d = s['delay']
  yield d['name'] != 'constant' and s['lag'] == 0, (
      f'sample.delay={d["name"]} needs sample.lag of at least 1: the steps a single rollout waits')
  spread = d.get('sigma', 0.0)
  yield not slotted.number(spread) or not 0 <= spread <= 3, (
      f'sample.delay.sigma: must be a number from 0 to 3, for the line has a fixed size; got '
      f'{spread}')
  waits = s['lag']
  if s['lag'] > 0 and d['name'] != 'constant' and slotted.number(spread):
    waits = staleness.batches(s['lag'], s['group'], spread)
  yield waits >= c['steps'], (
      f'sample.lag={s["lag"]}: the first batch is trained on at step {waits}, and steps='
      f'{c["steps"]} end before: nothing would be trained; lower sample.lag, or raise steps')
  parts = u['minibatches'] * u['micro']
  yield s['prompts'] % (parts * c['mesh']['data']) != 0, (
      f'sample.prompts={s["prompts"]} must be divisible by train.minibatches={u["minibatches"]} x '
      f'train.micro={u["micro"]} x mesh.data={c["mesh"]["data"]}: groups are never split')
  devices = c['mesh']['data'] * c['mesh']['model']
  yield devices > jax.device_count(), (
      f'mesh.data x mesh.model = {devices} devices, this machine has {jax.device_count()}')
  for path, value in (('sample.temperature', s['temperature']),
                      ('train.clip_norm', u['clip_norm']),
                      ('clone.learning_rate', c['clone']['learning_rate'])):
    yield slotted.number(value) and not value > 0, f'{path}: must be above 0, got {value}'
  yield u['compare'] not in (0, 1), f'train.compare: allowed are 0 and 1, got {u["compare"]}'
  yield slotted.number(u['learning_rate']) and u['learning_rate'] < 0, (
      f'train.learning_rate: must be at least 0, got {u["learning_rate"]}')
  for path, value in (('train.b1', u['b1']), ('train.b2', u['b2'])):
    yield slotted.number(value) and not 0 <= value < 1, f'{path}: must be in [0, 1), got {value}'
  for path, value in (('clone.pass_rate', c['clone']['pass_rate']),
                      ('clone.noise', c['clone']['noise'])):
    yield slotted.number(value) and not 0 <= value <= 1, f'{path}: must be in [0, 1], got {value}'
  yield c['evaluate']['heldout'] not in (0, 1), (
      f'evaluate.heldout: allowed are 0 and 1, got {c["evaluate"]["heldout"]}')
  yield from slotted.rules(m, s, u)
  pretrained = c['model']['name'] == 'hf'
  yield pretrained and 'path' not in c['model'], (
      'model.path: model.name=hf needs the folder of a model')
  rank = c['model'].get('rank', 0)
  yield pretrained and (type(rank) is not int or rank < 0), (
      f'model.rank: must be an integer of at least 0, got {rank!r}')
  yield pretrained and bool(c['model'].get('adapter')) and rank == 0, (
      'model.adapter: adapters to start from need their model.rank, and it is 0')
  yield pretrained and c['clone']['steps'] > 0, (
      f'clone.steps={c["clone"]["steps"]}: a model that comes from a file starts from its own '
      'weights, so it must be 0')
  yield bool(c['schedule']) and a['every'] > 0, (
      'schedule: an audit plays the knobs of task and knows no schedule; use audit.every=0')
  yield bool(c['schedule']) and m['returns']['name'] == 'potential_look_ahead', (
      'schedule: the potential of a step is that of the knobs of task; use no schedule')
  for name, spec in c['schedule'].items():  # a knob keeps its range at every step
    to = spec.get('to', ())
    to = to if isinstance(to, (list, tuple)) else ()  # else build.py refuses it
    for value in (*to, *(spec[k] for k in ('low', 'high') if k in spec)):
      for broken, text in _task({**c['task'], name: value}):
        yield broken, f'schedule.{name}: {text}'
  yield from _text(c)
  yield from _task(c['task'])
  yield from _scene(c['task'])
  yield m['returns']['name'] == 'potential_look_ahead' and c['task']['name'] not in POTENTIAL, (
      f'method.returns=potential_look_ahead: task {c["task"]["name"]} has no potential')
  if m['returns']['name'] == 'information_gain':
    yield from _answered(c['task'])


def _window(c):
  w, t, m = c['window'], c['task'], c['method']
  yield slotted.number(w['forget']) and not 0 <= w['forget'] < max(w['carry'], 1), (
      f'window.forget={w["forget"]}: must be in 0..window.carry-1, and window.carry={w["carry"]}')
  yield w['compactions'] < -1, (
      f'window.compactions: must be at least 0, or -1 for as many as it takes; got '
      f'{w["compactions"]}')
  yield c['train']['summaries'] not in (0, 1), (
      f'train.summaries: allowed are 0 and 1, got {c["train"]["summaries"]}')
  if not w['summary']:
    return
  yield w['summary'] < 2, (
      f'window.summary={w["summary"]}: must be 0, or at least 2: a word and the end')
  yield t['name'] in ONE_TURN, (
      f'window.summary={w["summary"]}: task {t["name"]} has one turn, and one window')
  yield m['returns']['name'] == 'information_gain', (
      'method.returns=information_gain asks for the answer at the start of a turn, where '
      'window.summary may ask for a summary: use window.summary=0')


def _text(c):
  """Rules of answers that are graded on the host."""
  if c['task']['name'] != 'text':
    return
  yield not isinstance(c['task'].get('problems'), Mapping) or 'name' not in c['task']['problems'], (
      'task.problems: a slot is a name and arguments, {"name": ...}')
  yield c['sample']['reference'] > 0, (
      'sample.reference: an answer of the reference may be unscorable, and its value is a mean '
      'over them all; use another method for task text')
  yield jax.process_count() > 1, (
      'task text grades the answers of all prompts on one host: start one process')


def _task(t):
  for knob, low in (('numbers', 2), ('level', 1), ('doors', 1), ('boxes', 1), ('depth', 1),
                    ('sources', 1), ('horizon', 1)):
    if knob in t and slotted.number(t[knob]):
      yield t[knob] < low, f'task.{knob}: must be at least {low}, got {t[knob]}'
  for knob, room in (('horizon', 'max_turns'), ('terms', 'max_terms'), ('digits', 'max_digits'),
                     ('ops', 'max_ops'), ('decisive', 'horizon'), ('numbers', 'max_numbers'),
                     ('level', 'max_level'), ('doors', 'max_doors'),
                     ('distractors', 'max_distractors'), ('boxes', 'max_boxes'),
                     ('depth', 'max_depth'), ('walls', 'max_walls'), ('sources', 'max_sources')):
    if knob in t and room in t and slotted.number(t[knob]) and slotted.number(t[room]):
      yield t[knob] > t[room], (
          f'task.{knob}={t[knob]} does not fit in task.{room}={t[room]}')
      yield t[knob] < 0, f'task.{knob}: must be at least 0, got {t[knob]}'
  for knob in ('visibility', 'undo', 'drift', 'partial', 'unmarked', 'products', 'mixed', 'form',
               'subgoal', 'brittle', 'hurry', 'unreliable', 'switch', 'lower', 'fatal'):
    if knob in t and slotted.number(t[knob]):
      yield not 0 <= t[knob] <= 1, f'task.{knob}: must be in [0, 1], got {t[knob]}'
  yield slotted.number(t.get('manner')) and not -1 <= t['manner'] <= 1, (
      f'task.manner: must be in [-1, 1], got {t.get("manner")}')
  for knob in interventions.KNOBS:
    if knob in t and slotted.number(t[knob]):
      yield t[knob] < -1, f'task.{knob}: must be a turn, or -1 for never, got {t[knob]}'
      yield _numbers(t, 'horizon') and t[knob] >= t['horizon'], (
          f'task.{knob}={t[knob]} never comes with task.horizon={t.get("horizon")}: turns count '
          'from 0; -1 is never')
  if t['name'] == 'arithmetic' and _numbers(t, 'products'):
    yield t['products'] > 0 and '*' not in t.get('operators', ''), (
        f"task.products={t['products']} needs task.operators='+*', got {t.get('operators')!r}")
  for knob, never in (('switch', 0), ('switch_at', -1)):
    if t['name'] == 'horizon' and _numbers(t, knob, 'goals'):
      yield t[knob] > never and t['goals'] == 1, (
          f'task.{knob}={t[knob]} needs task.goals=2, got {t["goals"]}')
  if t['name'] == 'horizon':
    yield from _order(t)
  if _numbers(t, 'delay', 'horizon'):
    yield not 0 <= t['delay'] < t['horizon'], (
        f'task.delay={t["delay"]}: must be in 0..horizon-1 with task.horizon={t["horizon"]}')


def _order(t):
  """Rules of blocks of decisive turns in task horizon."""
  if not _numbers(t, 'order', 'decisive') or t['order'] == 0:
    return
  m, K = t['order'], t['decisive']
  yield m != int(m) or not 0 < m <= K or K % m != 0, (
      f'task.order={m}: must be 0, or an integer that divides task.decisive={K}')
  for knob, why in (('undo', 'a second wrong action of a block takes back the first'),
                    ('fatal', 'no episode is lost before its end')):
    yield slotted.number(t.get(knob)) and t[knob] > 0, (
        f'task.{knob}={t[knob]} needs task.order=0, got {m}: {why}')


def _numbers(t, *names):
  """Whether the task has all these fields, as numbers: build.py refuses those of another task."""
  return all(slotted.number(t.get(name)) for name in names)


def _answered(t):
  """Rules of information gain: an answer that is known from the start and stays the answer."""
  yield t['name'] not in ANSWER, (
      f'method.returns=information_gain: task {t["name"]} has no answer of one token; those that '
      f'have one are {", ".join(ANSWER)}')
  for knob, never in (('switch', 0), ('switch_at', -1),
                      *([('drift', 0)] if t['name'] == 'triage' else [])):
    yield slotted.number(t.get(knob)) and t[knob] > never, (
        f'method.returns=information_gain: task.{knob}={t.get(knob)} changes the answer; use '
        f'{never}')


def _scene(t):
  """Rules of line, meeting and triage."""
  if t['name'] not in ('line', 'meeting', 'triage'):
    return
  for knob, low, high in (('rules', 0, 2), ('sources', 1, 3), ('roles', 1, t.get('people')),
                          ('decisive', 0, t.get('machines'))):
    if slotted.number(high) and _numbers(t, knob):
      yield not low <= t[knob] <= high, (
          f'task.{knob}: must be in {low}..{high} for task {t["name"]}, got {t[knob]}')
  if t['name'] == 'line' and _numbers(t, 'horizon', 'decisive'):
    need = 3 * (t['decisive'] + 1)
    yield t['horizon'] < need, (
        f'task.horizon={t["horizon"]}: task.decisive={t["decisive"]} needs at least {need}, else '
        'a line that nobody guards makes its quota')
