"""Three divisors of the loss, each with and without the group's standard deviation."""

from scripts import cells as sweep_cells

BASE = 'sequence'
SCORE = 'length/wrong_last'  # tokens of wrong answers at the end; fixed before the first run
WORDS = ('longer', 'shorter')

_AGGREGATES = dict(sequence='sequence', token='token', constant='constant_length')
_ADVANTAGES = {'': 'group_zscore', ', no std': 'group_center'}
ARMS = {aggregate + suffix: (_AGGREGATES[aggregate], advantages)
        for suffix, advantages in _ADVANTAGES.items() for aggregate in _AGGREGATES}
WATCH = ('length/wrong', 'length/right', 'length/truncated', 'entropy')
_SEEDS = dict(smoke=2, small=8, full=16)


def overrides(arm: str, size: str) -> dict:
  """One-digit sums whose answer may be preceded by as many tokens as one likes, up to six."""
  aggregate, advantages = ARMS[arm]
  made = {'task.scratch': 6, 'method.aggregate': dict(name=aggregate),
          'method.advantages': dict(name=advantages)}
  if size == 'small':
    made |= {'model.layers': 1, 'clone.pass_rate': 0.5, 'clone.learning_rate': 2e-3,
             'sample.prompts': 32, 'sample.group': 4, 'train.minibatches': 2,
             'train.learning_rate': 1e-3, 'train.warmup': 20, 'train.b2': 0.99, 'steps': 80,
             'log_every': 10, 'checkpoint.every': 80}
  elif size == 'smoke':
    made |= sweep_cells.TABLES | {'sample.prompts': 16, 'steps': 4, 'log_every': 2,
                                  'checkpoint.every': 4}
  return made


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms; the seeds of an arm are those of every other arm."""
  return [sweep_cells.Cell(
      'length_bias', arm, 'arithmetic', 'free length', f'configs/grpo.py:{size},arithmetic',
      overrides(arm, size), tuple(range(_SEEDS[size])), watch=WATCH) for arm in ARMS]
