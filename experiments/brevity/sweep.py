"""Does group credit make answers short when rollouts are old? Length of answers, end over start."""

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.sao_stability import sweep as stability
from grpo.rollout import staleness
from scripts import cells as sweep_cells

BASE = 'group'
SCORE = 'length_ratio'  # tokens of all answers, last log point over first; fixed before the run
WORDS = ('longer', 'shorter')

_CONSTANT = {'method.aggregate': dict(name='constant_length')}
_KL = {'method.kl': dict(name='k3'), 'method.kl_coef': 0.1}
# Arm -> config, bound on the ratio, and what else differs.
ARMS = {
    'group': ('grpo', 'dis', {}),
    'group clip': ('grpo', 'clip', {}),
    'group kl': ('grpo', 'dis', _KL),
    'group constant': ('grpo', 'dis', _CONSTANT),
    'critic': ('sao', 'dis', {})}
ADMITTED = ('group', 'critic')  # arms that are run with weights by admission where there is a limit

# Sums behind up to six free tokens: length says nothing. Of two numbers there are 100, half of them
# solved by the clone, and nothing to hold out; of three there are 1000, a quarter solved, a fifth
# held out. Triage: who asks longer can know more; who advises at once is right in one of four.
TASKS = {
    'sums': ('arithmetic', {'task.scratch': 6, 'clone.pass_rate': 0.5, 'evaluate.heldout': 0}),
    'hard sums': ('arithmetic', {'task.terms': 3, 'task.scratch': 6, 'clone.pass_rate': 0.25}),
    'triage': ('triage', {'task.horizon': 6, 'window.turns': 6, 'clone.pass_rate': 0.5})}
SIGMA, LAG, LIMIT = 0.5, 4, 'limit'
CAREFUL, FAST = 3e-4, 1e-3
# Tasks, lines and rates. Rates are numbers of one program.
SETTINGS = dict(
    smoke=(('sums', 'by length', (FAST,)), ('sums', LIMIT, (FAST,))),
    small=(('sums', 'in step', (CAREFUL, FAST)), ('sums', 'by length', (CAREFUL, FAST)),
           ('sums', LIMIT, (CAREFUL,)), ('hard sums', 'by length', (CAREFUL,)),
           ('triage', 'by length', (CAREFUL, FAST))),
    full=tuple((task, line, (1e-5, 1e-4)) for task in TASKS
               for line in ('in step', 'lag 8', 'by length', LIMIT)))
STEPS, EVERY = dict(smoke=4, small=48, full=1000), dict(smoke=2, small=4, full=50)
PROMPTS, GROUP = 8, 8
WATCH = ('length/tokens', 'length/right', 'length/wrong', 'ratio/mask_fraction', 'stale/lag',
         'group/kept', 'entropy')
_SEEDS = dict(smoke=2, small=12, full=16)


def asynchrony(name: str, group: int) -> tuple[int, dict]:
  """Steps until the line is full, and the fields of a line.

  Groups of eight wait for their slowest, so by length they are twice as old as single rollouts. The
  limit is the mean age of each line.
  """
  if name == 'in step':
    return 0, {}
  if name == 'lag 8':
    return 8, {'sample.lag': 8}
  age = staleness.batches(LAG, group, SIGMA)
  made = {'sample.lag': LAG, 'sample.delay': dict(name='by_length', sigma=SIGMA)}
  if name == LIMIT:
    made |= {'method.filter': dict(fresh=dict(name='fresh', max_lag=age)), 'method.weigh': dict(
        short=dict(name='admission', max_lag=age, sigma=SIGMA, most=1.0))}
  return age, made


def shared(task: str, size: str) -> dict:
  """What all arms of a task have in common."""
  made = {
      'sample.prompts': PROMPTS, 'sample.group': GROUP, 'train.minibatches': 2, 'train.warmup': 5,
      'train.b2': 0.99, 'evaluate.heldout': 1, 'method.surrogate': stability.BANDS} | TASKS[task][1]
  if size == 'full':
    return made | {'sample.prompts': 32}
  if size == 'smoke':
    return made | sweep_cells.TABLES
  made |= {'model.layers': 1, 'evaluate.prompts': 256, 'clone.learning_rate': 3e-3}
  if task == 'triage':
    return made | {'model.hidden': 32, 'model.mlp': 64, 'clone.prompts': 32}
  return made | {'clone.steps': 1000, 'clone.every': 25, 'clone.prompts': 64}


def cell(task: str, line: str, rate: float, arm: str, size: str,
         admitted: bool = False) -> sweep_cells.Cell:
  """One arm in one setting; all train on as many batches, so that long lines play more."""
  config, band, changes = ARMS[arm]
  single, name = config == 'sao', TASKS[task][0]
  fill, fields = asynchrony(line, 1 if single else GROUP)
  made = shared(task, size) | fields | changes
  made = stability.singled(made) if single else made
  steps = STEPS[size] + EVERY[size] * -(-fill // EVERY[size])
  made |= {'steps': steps, 'log_every': EVERY[size], 'checkpoint.every': steps}
  numbers = stability.bound(band) | {'train.learning_rate': rate}
  if single:
    made['method.critic.warmup'] = fill + max(1, STEPS[size] // 10)
    numbers['method.critic.learning_rate'] = rate
  if line == LIMIT:
    numbers['method.weigh.short.most'] = 50.0 if admitted else 1.0
  return sweep_cells.Cell(
      'brevity', arm + ' admission' * admitted, name, f'{task}, {line}, rate {rate:g}',
      f'configs/{config}.py:{size},{name}', made, tuple(range(_SEEDS[size])), horizon=fill,
      cost=steps * (2.0 if single else 1.0), group=f'{task} {line} {config} {sorted(changes)}',
      scalars=numbers, watch=WATCH, tests={'train': {}}, room={'evaluate.heldout': 0})


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms in all settings; where there is a limit those that it concerns."""
  made = []
  for task, line, rates in SETTINGS[size]:
    arms = ([(arm, admitted) for arm in ADMITTED for admitted in (False, True)] if line == LIMIT
            else [(arm, False) for arm in ARMS])
    made += [cell(task, line, rate, arm, size, admitted) for rate in rates
             for arm, admitted in arms]
  return made


def rows(results: Sequence[Mapping[str, Any]],
         curves: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
  """Results with the length of answers at the end over that at the first log point, and the gap.

  Lengths are of answers as they were sampled, whether they are trained on or not. The gap is
  success on training prompts minus success on held-out ones, after the last step.
  """
  key = lambda r: (r['arm'], r['setting'], r['seed'])
  first = {}
  for point in curves:
    if point['step'] > 0 and (key(point) not in first or point['step'] < first[key(point)]['step']):
      first[key(point)] = point
  return [r | {SCORE: r['length/tokens_last'] / first[key(r)]['length/tokens'],
               'gap': r['test/train'] - r['success_last']} for r in results]
