"""Method by tier: the same arms from one checked answer to work that cannot be undone."""

from scripts import cells as sweep_cells

BASE = 'grpo'
SCORE = 'success_last'  # success on fresh episodes after the last step; fixed before the first run

# Arm -> config, single rollouts or not. `sao_groups` is SAO on as few prompts as GRPO has.
ARMS = dict(grpo=('grpo', False), grpo_dis=('grpo_dis', False), ppo=('ppo', True),
            sao=('sao', True), sao_groups=('sao', False))
CRITICS = ('ppo', 'sao', 'sao_groups')
# Task -> tier, turns, and what differs from its config; chosen so that the clone solves some.
TASKS = dict(
    arithmetic=(1, 1, {'clone.pass_rate': 0.5, 'clone.learning_rate': 2e-3}),
    countdown=(2, 1, {'clone.pass_rate': 0.3}),
    ladder=(3, 4, {'task.level': 2, 'window.turns': 4, 'clone.pass_rate': 0.4, 'clone.noise': 0.0,
                   'clone.learning_rate': 3e-3}),
    horizon=(3, 8, {'task.horizon': 8, 'window.turns': 8, 'clone.pass_rate': 0.3}),
    line=(4, 6, {'task.horizon': 6, 'task.decisive': 1, 'task.machines': 3, 'window.turns': 6,
                 'clone.pass_rate': 0.3}),
    meeting=(4, 6, {'task.horizon': 6, 'window.turns': 6, 'clone.pass_rate': 0.3}),
    triage=(4, 6, {'task.horizon': 6, 'window.turns': 6, 'clone.pass_rate': 0.3}))
SMOKE = ('arithmetic',)
PROMPTS, GROUP = 8, 8
RATE, STEPS = 1e-3, dict(smoke=2, small=30, full=2000)
_SEEDS = dict(smoke=2, small=10, full=16)


def setting(task: str, size: str) -> dict:
  """What all arms of a task share."""
  steps = STEPS[size]
  made = {'steps': steps, 'log_every': max(1, steps // 6), 'checkpoint.every': steps,
          'sample.prompts': PROMPTS, 'sample.group': GROUP, 'train.minibatches': 2,
          'train.warmup': 5, 'train.b2': 0.99}
  if size == 'full':
    return made | {'log_every': 50, 'sample.prompts': 32}
  if size == 'smoke':
    return made | sweep_cells.TABLES | {'train.learning_rate': RATE}
  made |= {'model.layers': 1, 'model.hidden': 32, 'model.mlp': 64, 'train.learning_rate': RATE,
           'clone.prompts': 64 if task == 'meeting' else 32}
  made |= TASKS[task][2]
  return made | {'evaluate.prompts': 128}


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms on all tasks; size smoke has two arms on one task."""
  made = []
  for task in SMOKE if size == 'smoke' else TASKS:
    tier, turns, _ = TASKS[task]
    for arm, (config, single) in ARMS.items():
      if size == 'smoke' and arm not in ('grpo', 'sao'):
        continue
      chosen = setting(task, size)
      prompts, group = chosen['sample.prompts'], chosen['sample.group']
      if single:
        chosen |= {'sample.prompts': prompts * group, 'sample.group': 1}
      if arm in CRITICS and size != 'full':
        chosen['method.critic.learning_rate'] = chosen['train.learning_rate']
      if config == 'sao':
        chosen['method.critic.warmup'] = max(1, STEPS[size] // 10)
      made.append(sweep_cells.Cell(
          'matrix', arm, task, f'tier {tier}', f'configs/{config}.py:{size},{task}', chosen,
          tuple(range(_SEEDS[size])), horizon=turns, cost=turns * (2.0 if arm in CRITICS else 1.0),
          group=f'{task} {arm}', passes=(8,)))
  return made
