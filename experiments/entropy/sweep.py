"""Symmetric clip, clip-higher, entropy bonus and dynamic sampling, at equal rollouts."""

from scripts import cells as sweep_cells

BASE = 'symmetric'
SCORE = 'success_last'  # success on fresh episodes after the last step; fixed before the first run

_CLIP = lambda high: {'method.surrogate': dict(name='ppo_clip', low=0.2, high=high)}
_INFORMATIVE = {'method.filter': dict(informative=dict(name='informative', by='success'))}
ARMS = dict(
    symmetric=_CLIP(0.2),
    higher=_CLIP(0.28),
    open=_CLIP(1e3),  # no upper clip at all
    bonus=_CLIP(0.2) | {'method.entropy_coef': 0.01},
    filtered=_CLIP(0.2) | _INFORMATIVE,
    refilled=_CLIP(0.2) | _INFORMATIVE | {'sample.over': 2})
WATCH = ('entropy', 'group/informative', 'group/kept', 'ratio/clip_fraction', 'length/tokens')
_SEEDS = dict(smoke=2, small=8, full=16)


def overrides(arm: str, size: str) -> dict:
  """As in experiments/quickstart, but with eight updates a batch, so that ratios leave 1."""
  made = {'train.epochs': 2, 'train.minibatches': 4} | ARMS[arm]
  if size == 'small':
    made |= {'model.layers': 1, 'clone.pass_rate': 0.75, 'clone.learning_rate': 2e-3,
             'sample.prompts': 32, 'sample.group': 4, 'train.learning_rate': 1e-3,
             'train.warmup': 20, 'train.b2': 0.99, 'steps': 80, 'log_every': 10,
             'checkpoint.every': 80}
  elif size == 'smoke':
    made |= sweep_cells.TABLES | {'sample.prompts': 16, 'steps': 4, 'log_every': 2,
                                  'checkpoint.every': 4}
  else:
    made |= {'sample.prompts': 128}
  if made.get('sample.over'):  # as many are played; half of them are trained on
    made['sample.prompts'] //= made['sample.over']
  return made


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms; the seeds of an arm are those of every other arm."""
  return [sweep_cells.Cell(
      'entropy', arm, 'arithmetic', 'one answer', f'configs/grpo.py:{size},arithmetic',
      overrides(arm, size), tuple(range(_SEEDS[size])), watch=WATCH) for arm in ARMS]
