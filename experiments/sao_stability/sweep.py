"""SAO taken apart under two lags and two learning rates: what keeps stale training alive.

The critics of these runs are looked at in experiments/sao_critic; sao_parts and staleness have the
same task and bounds.
"""

from scripts import cells as sweep_cells

BASE = 'grpo'
SCORE = 'success_last'  # success on fresh episodes after the last step; fixed before the first run

# Bounds on the ratio to the sampler, as four numbers of one program.
BANDS = dict(name='two_bands', up_low=0.0, up_high=0.0, down_low=0.0, down_high=0.0)
_BOUNDS = dict(clip=(0.0, 1.2, 0.8, 1e9), dis=(0.7, 6.0, 0.7, 6.0), free=(0.0, 1e9, 0.0, 1e9))
MEAN = {'method.advantages': dict(name='batch_center')}
_RATIO = {'method.ratio': dict(name='token')}
# Arm -> config, single rollouts or not, bound, and what else differs.
ARMS = dict(
    grpo=('grpo', False, 'clip', {}),
    grpo_dis=('grpo', False, 'dis', {}),
    grpo_free=('grpo', False, 'free', {}),
    group_mean=('grpo', False, 'dis', MEAN),
    single_mean=('grpo', True, 'dis', MEAN),
    single_running=('running_mean', True, 'dis', _RATIO),
    ppo=('ppo', True, 'clip', {}),
    sao_clip=('sao', True, 'clip', {}),
    sao_free=('sao', True, 'free', {}),
    sao_k1=('sao', True, 'dis', {'method.critic.updates': 1}),
    sao_unfrozen=('sao', True, 'dis', {'method.critic.freeze': ''}),
    sao=('sao', True, 'dis', {}))
CRITICS = ('ppo', 'sao_clip', 'sao_free', 'sao_k1', 'sao_unfrozen', 'sao')
SMOKE = ('grpo', 'grpo_dis', 'grpo_free', 'sao_k1', 'sao')
FAST = 1.6e-2
SETTINGS = ((6, FAST), (6, 4e-3), (2, FAST))  # lag and learning rate
AT_TWO = ('grpo', 'grpo_dis', 'grpo_free', 'sao_clip', 'sao_free', 'sao')  # arms at lag 2, if small
PROMPTS, GROUP = 8, 8
WATCH = ('ratio/mask_fraction', 'ratio/ess', 'ratio/tail_5', 'grad_norm/policy', 'entropy')
OF_CRITIC = ('critic/explained', 'grad_norm/value')
_SEEDS = dict(smoke=2, small=10, full=16)


def bound(name: str) -> dict[str, float]:
  """Numbers of a bound: clipping at 0.8 and 1.2, the mask of SAO, or none."""
  names = ('up_low', 'up_high', 'down_low', 'down_high')
  return {f'method.surrogate.{k}': v for k, v in zip(names, _BOUNDS[name], strict=True)}


def setting(size: str, steps: int = 40) -> dict:
  """What all arms share: six turns of which two decide, three sources that may lie, failures seen.

  Liars differ between prompts and make some harder than others; a critic can read both that and
  what has gone wrong.
  """
  made = {'task.horizon': 6, 'task.decisive': 2, 'task.visibility': 1.0, 'task.sources': 3,
          'task.unreliable': 0.25, 'window.turns': 6, 'sample.prompts': PROMPTS,
          'sample.group': GROUP, 'train.minibatches': 2, 'train.warmup': 5, 'train.b2': 0.99,
          'method.surrogate': BANDS, 'method.aggregate': dict(name='token')}
  if size == 'full':
    return made | {'sample.prompts': 32}
  made |= {'model.layers': 1, 'model.hidden': 16, 'model.mlp': 32, 'model.heads': 1,
           'clone.prompts': 16, 'clone.pass_rate': 0.25}
  if size == 'smoke':
    return made | sweep_cells.TABLES | {'steps': 8, 'log_every': 4, 'checkpoint.every': 8}
  return made | {'evaluate.prompts': 128, 'steps': steps, 'log_every': steps // 5,
                 'checkpoint.every': steps}


def critic(made: dict, rate: float) -> tuple[dict, dict]:
  """Warm-up of a critic, a tenth of the steps with data, and its rate: fields and numbers."""
  trained = made.get('steps', 2000) - made['sample.lag']  # until the line is full nothing comes
  begin = made['sample.lag'] + max(1, trained // 10)
  return {'method.critic.warmup': begin}, {'method.critic.learning_rate': rate}


def singled(made: dict) -> dict:
  """As many rollouts, one of each prompt."""
  return made | {'sample.prompts': made['sample.prompts'] * made['sample.group'], 'sample.group': 1}


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms in all settings. Rates and bounds are numbers of one program."""
  made = []
  for lag, rate in SETTINGS[:1] if size == 'smoke' else SETTINGS:
    for arm in SMOKE if size == 'smoke' else ARMS:
      if size == 'small' and lag == 2 and arm not in AT_TWO:
        continue
      config, single, band, changes = ARMS[arm]
      shared = setting(size) | {'sample.lag': lag}
      shared = singled(shared) if single else shared
      chosen, numbers = shared | changes, bound(band) | {'train.learning_rate': rate}
      if config in ('ppo', 'sao'):
        warm, rates = critic(shared, rate)
        chosen, numbers = chosen | (warm if config == 'sao' else {}), numbers | rates
      made.append(sweep_cells.Cell(
          'sao_stability', arm, 'horizon', f'lag {lag}, rate {rate:g}',
          f'configs/{config}.py:{size},horizon', chosen, tuple(range(_SEEDS[size])), horizon=lag,
          cost=2.0 if arm in CRITICS else 1.0, group=f'{lag} {config} {single}', scalars=numbers,
          watch=WATCH + (OF_CRITIC if arm in CRITICS else ())))
  return made
