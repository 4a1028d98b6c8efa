"""GRPO, GRPO with the mask of SAO, PPO and SAO on short answers and on three horizons."""

from experiments.sao_stability import sweep as stability
from scripts import cells as sweep_cells

BASE = 'grpo'
SCORE = 'success_last'  # success on fresh episodes after the last step; fixed before the first run

ARMS = ('grpo', 'grpo_dis', 'ppo', 'sao')
HORIZONS = (2, 8, 32)   # turns; two of them decide, so the share that matters is 1, 1/4, 1/16
# Clipping and the mask, `low` and `high` of the two configs, as four numbers of one program.
BOUNDS = dict(grpo='clip', grpo_dis='dis')
_SEEDS = dict(smoke=2, small=8, full=16)


def settings(size: str) -> list[dict]:
  """Names, horizon, overrides and relative cost of each setting.

  The small size is made for two cores.
  """
  short, long = {}, {}
  if size == 'small':
    short = {'model.layers': 1, 'clone.pass_rate': 0.75, 'clone.learning_rate': 2e-3,
             'sample.prompts': 32, 'sample.group': 4, 'train.minibatches': 2,
             'train.learning_rate': 1e-3, 'train.warmup': 20, 'train.b2': 0.99,
             'steps': 200, 'log_every': 20, 'checkpoint.every': 100}
    long = {'model.layers': 1, 'model.hidden': 32, 'model.mlp': 32, 'model.heads': 1,
            'clone.prompts': 16, 'sample.prompts': 8, 'sample.group': 8, 'train.minibatches': 2,
            'train.learning_rate': 3e-3, 'train.warmup': 10,
            'steps': 25, 'log_every': 5, 'checkpoint.every': 25}
  horizons = HORIZONS[:2] if size == 'smoke' else HORIZONS
  made = [dict(task='arithmetic', setting='one answer', horizon=1, overrides=short, scalars={},
               group='one answer', cost=28.0)]
  for turns in horizons:
    # The two short horizons are one program, which takes the horizon as a number.
    room = max(turns, HORIZONS[1])
    made.append(dict(
        task='horizon', setting=f'{turns} turns', horizon=turns, group=f'{room} turns',
        overrides=long | {'task.horizon': room, 'task.decisive': 2, 'window.turns': room},
        scalars={'task.horizon': turns} if room == HORIZONS[1] else {}, cost=4.0 + 0.75 * turns))
  return made


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms in all settings; the seeds of an arm are those of every other arm.

  GRPO with and without the mask is one program that takes its bounds as numbers.
  """
  made = []
  for s in settings(size):
    for arm in ARMS:
      single = not arm.startswith('grpo')
      overrides, scalars = dict(s['overrides']), s['scalars']
      if arm in BOUNDS:
        overrides['method.surrogate'] = stability.BANDS
        scalars = scalars | stability.bound(BOUNDS[arm])
      if single and size == 'small':  # as many rollouts, each of another prompt
        overrides['sample.prompts'] *= overrides.pop('sample.group')
        overrides['method.critic.learning_rate'] = overrides['train.learning_rate']
      if arm == 'sao' and size == 'small':  # the share of its steps that train the critic alone
        overrides['method.critic.warmup'] = overrides['steps'] // 10
      made.append(sweep_cells.Cell(
          'quickstart', arm, s['task'], s['setting'], f'configs/{arm}.py:{size},{s["task"]}',
          overrides, tuple(range(_SEEDS[size])), horizon=s['horizon'],
          cost=s['cost'] * (2.0 if single else 1.0), scalars=scalars,
          group=f'{s["group"]} {"grpo" if arm in BOUNDS else arm}'))
  return made
