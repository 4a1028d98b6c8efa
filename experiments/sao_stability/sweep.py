"""SAO taken apart under two lags and two learning rates: what keeps stale training alive.

The cells of experiments/sao_critic are among these: it draws their critics.
"""

from scripts import cells as sweep_cells

BASE = 'grpo'
SCORE = 'success_last'  # success on fresh episodes after the last step; fixed before the first run

# Arm -> config, single rollouts or not, and what else differs. `free` is a mask that is never met:
# the ratio itself, unbounded. It is a number of the same program.
BAND = {'method.surrogate.low': 0.3, 'method.surrogate.high': 5.0}
FREE = {'method.surrogate.low': 1e9, 'method.surrogate.high': 1e9}
DIS = dict(name='dis', low=0.3, high=5.0)
CLIP = dict(name='ppo_clip', low=0.2, high=0.2)
MEAN = {'method.advantages': dict(name='batch_center'), 'method.aggregate': dict(name='token')}
_RUNNING = {'method.ratio': dict(name='token'), 'method.surrogate': DIS,
            'method.aggregate': dict(name='token')}
ARMS = dict(
    grpo=('grpo', False, {}, {}),
    grpo_dis=('grpo_dis', False, {}, BAND),
    grpo_free=('grpo_dis', False, {}, FREE),
    group_mean=('grpo_dis', False, MEAN, {}),
    single_mean=('grpo_dis', True, MEAN, {}),
    single_running=('running_mean', True, _RUNNING, {}),
    ppo=('ppo', True, {}, {}),
    sao_clip=('sao', True, {'method.surrogate': CLIP}, {}),
    sao_free=('sao', True, {}, FREE),
    sao_k1=('sao', True, {'method.critic.updates': 1}, {}),
    sao_unfrozen=('sao', True, {'method.critic.freeze': ''}, {}),
    sao=('sao', True, {}, BAND))
CRITICS = ('ppo', 'sao_clip', 'sao_free', 'sao_k1', 'sao_unfrozen', 'sao')
SMOKE = ('grpo', 'grpo_dis', 'grpo_free', 'sao_k1', 'sao')
LAGS, RATES = (2, 6), (4e-3, 1.6e-2)
PROMPTS, GROUP = 8, 8
WATCH = ('ratio/mask_fraction', 'ratio/ess', 'ratio/tail_5', 'grad_norm/policy', 'entropy')
OF_CRITIC = ('critic/explained', 'grad_norm/value')
_SEEDS = dict(smoke=2, small=10, full=16)


def setting(size: str, steps: int = 48) -> dict:
  """What all arms share: six turns of which two decide, three sources that may lie, failures seen.

  Liars differ between prompts and make some harder than others; a critic can read both that and
  what has gone wrong.
  """
  made = {'task.horizon': 6, 'task.decisive': 2, 'task.visibility': 1.0, 'task.sources': 3,
          'task.unreliable': 0.25, 'window.turns': 6, 'sample.prompts': PROMPTS,
          'sample.group': GROUP, 'train.minibatches': 2, 'train.warmup': 5, 'train.b2': 0.99}
  if size == 'full':
    return made | {'sample.prompts': 32}
  made |= {'model.layers': 1, 'model.hidden': 16, 'model.mlp': 32, 'model.heads': 1,
           'clone.prompts': 16, 'clone.pass_rate': 0.25}
  if size == 'smoke':
    return made | {'clone.steps': 20, 'steps': 8, 'log_every': 4, 'checkpoint.every': 8}
  return made | {'evaluate.prompts': 128, 'steps': steps, 'log_every': steps // 8,
                 'checkpoint.every': steps}


def critic(made: dict, rate: float) -> tuple[dict, dict]:
  """Warm-up of a critic, a tenth of the steps with data, and its rate: fields and traced numbers."""
  trained = made.get('steps', 2000) - made['sample.lag']  # until the line is full nothing comes
  begin = made['sample.lag'] + max(1, trained // 10)
  return {'method.critic.warmup': begin}, {'method.critic.learning_rate': rate}


def singled(made: dict) -> dict:
  """As many rollouts, one of each prompt."""
  return made | {'sample.prompts': made['sample.prompts'] * made['sample.group'], 'sample.group': 1}


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms in all settings. Rates and bounds of masks are numbers of one program."""
  made = []
  for lag in LAGS[:1] if size == 'smoke' else LAGS:
    for arm in SMOKE if size == 'smoke' else ARMS:
      config, single, changes, scalars = ARMS[arm]
      shared = setting(size) | {'sample.lag': lag}
      shared = singled(shared) if single else shared
      for rate in RATES[:1] if size == 'smoke' else RATES:
        chosen, numbers = shared | changes, scalars | {'train.learning_rate': rate}
        if arm in CRITICS:
          more, rates = critic(shared, rate)
          chosen, numbers = chosen | (more if config == 'sao' else {}), numbers | rates
        made.append(sweep_cells.Cell(
            'sao_stability', arm, 'horizon', f'staleness {lag}, rate {rate:g}',
            f'configs/{config}.py:{size},horizon', chosen, tuple(range(_SEEDS[size])), horizon=lag,
            cost=2.0 if arm in CRITICS else 1.0, group=f'{lag} {config} {single}', scalars=numbers,
            watch=WATCH + (OF_CRITIC if arm in CRITICS else ())))
  return made
