"""Refuses a config that cannot work, before anything is computed: one line, what and where.

Reads the nested dicts that `build.plain` makes. Every rule is a line of `rules`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jax

from grpo import ranges
from grpo.tasks import interventions

__all__ = ['check', 'rules']

# Baselines that compare a sample with the others of its group.
GROUP = ('group_zscore', 'group_center', 'leave_one_out', 'group_mean_batch_std', 'process_zscore',
         'length_weighted', 'mean_over_mean', 'beta_density', 'informative_center', 'log_mean_exp',
         'best_of_group', 'decoupled_zscore', 'center_whiten', 'gigpo', 'hgpo', 'mt_grpo', 'igpo',
         'empg', 'mixed_baseline', 'shared_prefix', 'tree_grpo', 'treerl', 'spo_tree')
CRITIC_RETURNS = ('lambda_return', 'adaptive_lambda_return', 'bilevel_return',
                  'cross_segment_return', 'adaptive_cross_segment_return')
CRITIC_ADVANTAGES = ('critic', 'critic_whiten', 'mixed_baseline')
# Advantages that read which samples share a prefix.
TREES = ('shared_prefix', 'tree_grpo', 'treerl', 'spo_tree')
# Advantages of turns, and returns that add up tokens: a chunk of another size means something else.
TURN_ADVANTAGES = ('gigpo', 'hgpo', 'mt_grpo', 'igpo', 'empg')
TOKEN_RETURNS = ('bilevel_return', 'cross_segment_return', 'adaptive_cross_segment_return')
# Tasks that have a potential.
POTENTIAL = ('horizon', 'ladder', 'keychain', 'sokoban')
# Advantages that subtract a number from outside the batch, and the memories that keep one.
OUTSIDE = ('minus_baseline', 'baseline_zscore')
KEEPERS = ('running_mean', 'prompt_tracker')
# Surrogates whose formula is for one level of the ratio.
LEVEL = dict(gmpo='token', dppo_tv='token', dppo_kl='token', dro='token', kl_cov='token',
             vespo='product', squared='product', pmd='product')
WHOLE_BATCH = ('kl_cov', 'clip_cov', 'top_entropy')  # compare the tokens of one optimiser batch


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
  for broken, message in rules(c):
    if broken:
      raise ValueError(message)


def rules(c: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
  """Pairs of (broken, what to tell the user)."""
  yield from ranges.rules(c)
  m, s, u, k = c['method'], c['sample'], c['train'], c['checkpoint']
  for path, value, low in (
      ('steps', c['steps'], 1), ('log_every', c['log_every'], 1),
      ('sample.prompts', s['prompts'], 1), ('sample.group', s['group'], 1),
      ('sample.lag', s['lag'], 0), ('sample.greedy', s['greedy'], 0),
      ('train.epochs', u['epochs'], 1),
      ('train.minibatches', u['minibatches'], 1), ('train.micro', u['micro'], 1),
      ('train.warmup', u['warmup'], 0), ('mesh.data', c['mesh']['data'], 1),
      ('mesh.model', c['mesh']['model'], 1), ('checkpoint.every', k['every'], 1),
      ('checkpoint.keep', k['keep'], 1), ('evaluate.prompts', c['evaluate']['prompts'], 1),
      ('evaluate.group', c['evaluate']['group'], 1), ('clone.steps', c['clone']['steps'], 0),
      ('clone.every', c['clone']['every'], 1), ('clone.prompts', c['clone']['prompts'], 1),
      ('window.turns', c['window']['turns'], 1),
      ('method.reference_every', m['reference_every'], 0),
  ):
    yield value < low, f'{path}: must be at least {low}, got {value}'
  yield c['steps'] % c['log_every'] != 0, (
      f'log_every={c["log_every"]} must divide steps={c["steps"]}')
  yield k['every'] % c['log_every'] != 0, (
      f'checkpoint.every={k["every"]} must be a multiple of log_every={c["log_every"]}')
  w = c['window']
  yield _number(w['forget']) and not 0 <= w['forget'] < max(w['carry'], 1), (
      f'window.forget={w["forget"]}: must be in 0..window.carry-1, and window.carry={w["carry"]}')
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
    yield _number(value) and not value > 0, f'{path}: must be above 0, got {value}'
  yield _number(u['learning_rate']) and u['learning_rate'] < 0, (
      f'train.learning_rate: must be at least 0, got {u["learning_rate"]}')
  for path, value in (('train.b1', u['b1']), ('train.b2', u['b2'])):
    yield _number(value) and not 0 <= value < 1, f'{path}: must be in [0, 1), got {value}'
  for path, value in (('clone.pass_rate', c['clone']['pass_rate']),
                      ('clone.noise', c['clone']['noise'])):
    yield _number(value) and not 0 <= value <= 1, f'{path}: must be in [0, 1], got {value}'
  yield c['evaluate']['heldout'] not in (0, 1), (
      f'evaluate.heldout: allowed are 0 and 1, got {c["evaluate"]["heldout"]}')
  yield from _method(m, s, u)
  yield from _labelled(m, s, u)
  yield from _task(c['task'])
  yield from _scene(c['task'])
  yield m['returns']['name'] == 'potential_look_ahead' and c['task']['name'] not in POTENTIAL, (
      f'method.returns=potential_look_ahead: task {c["task"]["name"]} has no potential')


def _method(m, s, u):
  advantages, returns, critic = m['advantages']['name'], m['returns']['name'], m['critic']
  yield advantages in GROUP and s['group'] == 1, (
      f'method.advantages={advantages} compares a sample with its group, and sample.group=1 leaves '
      'nothing to compare with: raise sample.group, or use raw, batch_zscore or critic')
  has_critic = critic['name'] != 'none'
  branch = m['branch']['name']
  needs = [f'method.{slot}={name}' for slot, name, names in (
      ('returns', returns, CRITIC_RETURNS), ('advantages', advantages, CRITIC_ADVANTAGES))
           if name in names]
  if m['returns'].get('bootstrap') == 'critic':
    needs.append('method.returns.bootstrap=critic')
  yield bool(needs) and not has_critic and branch != 'monte_carlo', (
      f'{", ".join(needs)}: needs a critic, and method.critic.name is none')
  yield not needs and has_critic, (
      'method.critic: no slot reads the critic; use returns or advantages that do, or name=none')
  yield from _agents(m, s, has_critic, bool(needs))
  yield m['old'] not in ('sampler', 'recomputed'), (
      f'method.old: allowed are sampler, recomputed; got {m["old"]!r}')
  corrected = m['surrogate']['name'] != 'reinforce'
  corrects = m['correction'] and m['old'] == 'recomputed'
  yield not corrected and s['lag'] > 0 and not corrects, (
      f'sample.lag={s["lag"]} trains on stale rollouts, and method.surrogate=reinforce does not '
      'correct for it: use a surrogate with a ratio, or lag 0')
  yield not corrected and u['minibatches'] * u['epochs'] > 1, (
      'method.surrogate=reinforce has no ratio: train.minibatches and train.epochs must be 1')
  yield s['lag'] > 0 and m['old'] == 'recomputed' and not m['correction'], (
      'method.old=recomputed hides staleness: with sample.lag above 0 the anchor must be '
      'the sampler, or a method.correction has to weigh the difference')
  uses_kl = m['kl']['name'] != 'none'
  yield _number(m['kl_coef']) and uses_kl and m['kl_coef'] == 0, (
      f'method.kl={m["kl"]["name"]} has no weight: set method.kl_coef, or kl to none')
  yield _number(m['kl_coef']) and not uses_kl and m['kl_coef'] != 0, (
      'method.kl_coef weighs nothing: method.kl is none')
  refers = uses_kl or any(x['name'] == 'kl_in_reward' for x in m['shape'].values())
  yield m['reference_every'] > 0 and not refers, (
      'method.reference_every resets a reference that no slot reads')
  if has_critic:
    yield critic['start'] not in ('policy', 'fresh'), (
        f'method.critic.start: allowed are policy, fresh; got {critic["start"]!r}')
    yield critic['updates'] < 1, (
        f'method.critic.updates: must be at least 1, got {critic["updates"]}')
    yield critic['rows'] not in ('all', 'finished'), (
        f'method.critic.rows: allowed are all, finished; got {critic["rows"]!r}')
    yield _number(critic['lam']) and not 0 <= critic['lam'] <= 1, (
        f'method.critic.lam: must be in [0, 1], got {critic["lam"]}')


def _agents(m, s, has_critic, reads_values):
  """Credit by turns and windows, and rollouts that share prefixes."""
  advantages, returns, chunk = m['advantages']['name'], m['returns']['name'], m['chunk']
  branch = m['branch']
  yield advantages in TURN_ADVANTAGES and chunk['name'] not in ('turn', 'turns'), (
      f'method.advantages={advantages} is about turns, and method.chunk is {chunk["name"]}: '
      'use turn or turns')
  yield returns in TOKEN_RETURNS and chunk['name'] != 'token', (
      f'method.returns={returns} is about tokens, and method.chunk is {chunk["name"]}: use token')
  yield advantages in TREES and branch['name'] != 'tree', (
      f'method.advantages={advantages} needs samples that share prefixes: set method.branch to '
      'tree')
  yield advantages in TREES and returns != 'outcome', (
      f'method.advantages={advantages} compares whole trajectories, and method.returns is '
      f'{returns}: use outcome')
  every = branch.get('every', 1)
  length = {'turn': 1, 'turns': chunk.get('length', 1)}.get(chunk['name'], 0)
  yield advantages in TREES and (length == 0 or every % length != 0), (
      f'method.chunk={chunk["name"]} would reach across a fork: use turn, or turns with a length '
      f'that divides method.branch.every={every}')
  if branch['name'] != 'monte_carlo':
    return
  yield has_critic, (
      'method.branch=monte_carlo and method.critic both give values: use one of them')
  yield not reads_values, (
      'method.branch=monte_carlo: no slot reads values; use returns or advantages that do')
  default = 'critic' if returns in ('lambda_return', 'adaptive_lambda_return') else 'none'
  yield m['returns'].get('bootstrap', default) == 'critic', (
      'method.returns.bootstrap=critic: method.branch=monte_carlo has no value after the last '
      'token of a cut episode; use none')
  yield length == 0 or length % every != 0, (
      f'method.chunk={chunk["name"]}: values are known every method.branch.every={every} '
      'turns; use turn or turns, with a length that is a multiple of it')
  yield s['lag'] > 0, (
      f'sample.lag={s["lag"]}: the values of method.branch=monte_carlo are those of fresh '
      'rollouts; use lag 0')


def _labelled(m, s, u):
  """Rules of labelled slots and of what they need."""
  names = {slot: [x['name'] for x in m[slot].values()]
           for slot in ('shape', 'correction', 'gate', 'weigh', 'memory')}
  advantages, surrogate = m['advantages']['name'], m['surrogate']['name']
  yield bool(names['correction']) and m['old'] == 'sampler', (
      'method.correction weighs the anchor of the ratio against the sampler, and with '
      'method.old=sampler they are one: the ratio corrects already; set method.old to recomputed')
  level = LEVEL.get(surrogate)
  yield level is not None and m['ratio']['name'] != level, (
      f'method.surrogate={surrogate} is a formula of method.ratio={level}, got '
      f'{m["ratio"]["name"]}')
  whole = [x for x in (surrogate, *names['gate']) if x in WHOLE_BATCH]
  yield bool(whole) and u['micro'] > 1, (
      f'{", ".join(whole)} compares the tokens of a whole optimiser batch: train.micro must be 1')
  keepers = [x for x in names['memory'] if x in KEEPERS]
  sources = keepers + ['sample.greedy'] * bool(s['greedy'])
  reads = advantages in OUTSIDE or any(
      x['name'] == 'uncertainty' and x.get('by') == 'baseline' for x in m['weigh'].values())
  yield len(sources) > 1, (
      f'{" and ".join(sources)} each give a baseline, and one is subtracted: keep one of them')
  yield reads and not sources, (
      f'method.advantages={advantages}: nothing gives a baseline; set sample.greedy, or '
      f'method.memory to one of {", ".join(KEEPERS)}')
  yield bool(sources) and not reads, (
      f'{sources[0] if sources else ""} gives a baseline that no slot reads: use method.advantages='
      f'{" or ".join(OUTSIDE)}')
  yield s['greedy'] > 0 and s['lag'] > 0, (
      'sample.greedy is a baseline of the current weights, and sample.lag above 0 trains on '
      'episodes of older ones: use lag 0, or a baseline of method.memory')
  refers = m['kl']['name'] != 'none' or 'kl_in_reward' in names['shape']
  yield 'adaptive_kl' in names['memory'] and not refers, (
      'method.memory: adaptive_kl scales a KL term, and there is none in method.kl or method.shape')
  yield advantages == 'decoupled_zscore' and not names['shape'], (
      'method.advantages=decoupled_zscore normalises several rewards, and there is one: add a slot '
      'to method.shape')
  yield 'prefix_share' in names['weigh'] and s['group'] == 1, (
      'method.weigh: prefix_share compares the samples of a prompt, and sample.group=1')


def _task(t):
  for knob, room in (('horizon', 'max_turns'), ('terms', 'max_terms'), ('digits', 'max_digits'),
                     ('ops', 'max_ops'), ('decisive', 'horizon'), ('numbers', 'max_numbers'),
                     ('level', 'max_level'), ('doors', 'max_doors'),
                     ('distractors', 'max_distractors'), ('boxes', 'max_boxes'),
                     ('depth', 'max_depth'), ('walls', 'max_walls'), ('sources', 'max_sources')):
    if knob in t and room in t and _number(t[knob]) and _number(t[room]):
      yield t[knob] > t[room], (
          f'task.{knob}={t[knob]} does not fit in task.{room}={t[room]}')
      yield t[knob] < 0, f'task.{knob}: must be at least 0, got {t[knob]}'
  for knob, low in (('numbers', 2), ('level', 1), ('doors', 1), ('boxes', 1), ('depth', 1),
                    ('sources', 1)):
    if knob in t and _number(t[knob]):
      yield t[knob] < low, f'task.{knob}: must be at least {low}, got {t[knob]}'
  for knob in ('visibility', 'undo', 'drift', 'partial', 'unmarked', 'products', 'mixed', 'form',
               'subgoal', 'brittle', 'hurry', 'unreliable', 'switch'):
    if knob in t and _number(t[knob]):
      yield not 0 <= t[knob] <= 1, f'task.{knob}: must be in [0, 1], got {t[knob]}'
  for knob in interventions.KNOBS:
    if knob in t and _number(t[knob]):
      yield t[knob] < -1, f'task.{knob}: must be a turn, or -1 for never, got {t[knob]}'
  if t['name'] == 'arithmetic' and _number(t['products']):
    yield t['products'] > 0 and '*' not in t['operators'], (
        f"task.products={t['products']} needs task.operators='+*', got {t['operators']!r}")
  for knob, never in (('switch', 0), ('switch_at', -1)):
    if t['name'] == 'horizon' and knob in t and _number(t[knob]):
      yield t[knob] > never and t['goals'] == 1, (
          f'task.{knob}={t[knob]} needs task.goals=2, got {t["goals"]}')
  if 'delay' in t and _number(t['delay']) and _number(t['horizon']):
    yield not 0 <= t['delay'] < t['horizon'], (
        f'task.delay={t["delay"]}: must be in 0..horizon-1 with task.horizon={t["horizon"]}')


def _scene(t):
  """Rules of line, meeting and triage."""
  if t['name'] not in ('line', 'meeting', 'triage'):
    return
  for knob, low, high in (('rules', 0, 2), ('sources', 1, 3), ('roles', 1, t.get('people')),
                          ('decisive', 0, t.get('machines'))):
    if knob in t and _number(t[knob]):
      yield not low <= t[knob] <= high, (
          f'task.{knob}: must be in {low}..{high} for task {t["name"]}, got {t[knob]}')
  if t['name'] == 'line' and _number(t['horizon']) and _number(t['decisive']):
    need = 3 * (t['decisive'] + 1)
    yield t['horizon'] < need, (
        f'task.horizon={t["horizon"]}: task.decisive={t["decisive"]} needs at least {need}, else '
        'a line that nobody guards makes its quota')


def _number(value) -> bool:
  """Traced values cannot be compared here; they are checked by their caller."""
  return isinstance(value, (int, float))
