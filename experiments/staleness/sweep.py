"""Staleness as a dial: estimators under three bounds on the ratio, from no lag to 32 steps."""

from experiments.sao_stability import sweep as stability
from scripts import cells as sweep_cells

BASE = 'group clip'     # GRPO
SCORE = 'success_last'  # success on fresh episodes after the last step; fixed before the first run

# Config of an estimator, whether it takes single rollouts, and what else differs.
ESTIMATORS = dict(group=('grpo', False, {}), mean=('grpo', True, stability.MEAN),
                  critic=('sao', True, {}))
BOUNDS = ('clip', 'dis', 'free')
LAGS = dict(smoke=(4,), small=(0, 4, 12), full=(0, 4, 12, 32))
WAIT = 4       # lag of single rollouts where durations are log-normal and groups wait
RATE, STEPS = 6e-3, dict(smoke=4, small=24, full=1000)   # steps with data
_SEEDS = dict(smoke=2, small=10, full=16)
WATCH = ('stale/lag', 'ratio/ess', 'ratio/tail_5', 'ratio/mask_fraction', 'grad/cosine', 'entropy')
OF_CRITIC = ('critic/explained', 'critic/explained_1of4', 'critic/explained_4of4')


def settings(size: str, single: bool) -> dict[str, tuple[int, dict]]:
  """Setting -> steps until the line is full, and its fields.

  In the last one a group of eight waits for its slowest: there are 3.1 times as many batches under
  way as with single rollouts, 12 where those have 4.
  """
  made = {f'lag {lag}': (lag, {'sample.lag': lag}) for lag in LAGS[size]}
  if size != 'smoke':
    made['waiting'] = (WAIT if single else 3 * WAIT,
                       {'sample.lag': WAIT, 'sample.delay': dict(name='log_normal', sigma=1.0)})
  return made


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms in all settings; each trains on as many batches, so that long lines play more."""
  made = []
  for estimator, (config, single, changes) in ESTIMATORS.items():
    if size != 'full' and estimator == 'mean':
      continue
    for setting, (fill, line) in settings(size, single).items():
      for bound in BOUNDS:
        steps = STEPS[size] + fill
        chosen = stability.setting(size) | line | changes | {
            'steps': steps, 'log_every': 4, 'checkpoint.every': steps, 'train.compare': 1}
        chosen = stability.singled(chosen) if single else chosen
        numbers = stability.bound(bound) | {'train.learning_rate': RATE}
        if estimator == 'critic':
          chosen['method.critic.warmup'] = fill + max(1, STEPS[size] // 10)
          numbers['method.critic.learning_rate'] = RATE
        made.append(sweep_cells.Cell(
            'staleness', f'{estimator} {bound}', 'horizon', setting,
            f'configs/{config}.py:{size},horizon', chosen, tuple(range(_SEEDS[size])),
            horizon=line['sample.lag'], cost=steps * (2.0 if estimator == 'critic' else 1.0),
            group=f'{estimator} {setting}', scalars=numbers,
            watch=WATCH + (OF_CRITIC if estimator == 'critic' else ())))
  return made
