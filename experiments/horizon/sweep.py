"""Trained on L1 to L4 of the ladder, tested on L1 to L7: GRPO, masks, critics and macro actions."""

from collections.abc import Mapping, Sequence
from typing import Any

from grpo.tasks import ladder
from scripts import cells as sweep_cells

BASE = 'grpo'
SCORE = 'test_success'  # on held-out boards of one level; fixed before the first run

TRAINED = dict(smoke=2, small=4, full=4)  # highest level of training
TESTED = dict(smoke=3, small=7, full=7)
MACRO = 2   # cells that a macro action writes
ARMS = ('grpo', 'grpo_dis', 'ppo', 'sao', 'chunked', 'macro')
_CONFIGS = dict(chunked='horizon_chunked_critic', macro='grpo')
_SEEDS = dict(smoke=2, small=8, full=16)


def turns(level: int, macro: int) -> int:
  """Turns of the longest episode of a level, as in the task: two may be wasted."""
  return -(-ladder.EMPTY[level - 1] // macro) + 2


def overrides(arm: str, size: str) -> dict:
  """Levels are drawn evenly; a single rollout needs more prompts for as many episodes."""
  macro = MACRO if arm == 'macro' else 1
  made = {'task.level': TRAINED[size], 'task.lower': 1.0, 'task.macro': macro,
          'window.turns': turns(TRAINED[size], macro)}
  if size == 'small':
    made |= {'model.hidden': 32, 'model.mlp': 64, 'clone.pass_rate': 0.4, 'clone.noise': 0.0,
             'clone.learning_rate': 3e-3, 'clone.prompts': 16, 'clone.every': 20,
             'evaluate.prompts': 128, 'sample.prompts': 8, 'sample.group': 8,
             'train.minibatches': 2, 'train.learning_rate': 6e-4, 'train.warmup': 10,
             'train.b2': 0.99, 'steps': 40, 'log_every': 10, 'checkpoint.every': 40}
    if macro > 1:  # 400 steps, the default, took its clone to 0.15 only
      made['clone.steps'] = 1600
  elif size == 'smoke':
    made |= sweep_cells.TABLES | {'steps': 2, 'log_every': 2, 'checkpoint.every': 2}
  if arm == 'chunked':
    made['method.chunk'] = dict(name='turns', length=2)
  if arm in ('ppo', 'sao') and size == 'small':
    made['sample.prompts'] *= made.pop('sample.group')
  if arm in ('ppo', 'sao', 'chunked') and size == 'small':
    made['method.critic.learning_rate'] = made['train.learning_rate']
  if arm == 'sao' and size == 'small':  # the share of its steps that train the critic alone
    made['method.critic.warmup'] = made['steps'] // 10
  return made


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms, or GRPO with both kinds of actions. Windows of tests are as long as in training."""
  made = []
  for arm in ('grpo', 'macro') if size == 'smoke' else ARMS:
    macro = MACRO if arm == 'macro' else 1
    made.append(sweep_cells.Cell(
        'horizon', arm, 'ladder', f'L1 to L{TRAINED[size]}',
        f'configs/{_CONFIGS.get(arm, arm)}.py:{size},ladder', overrides(arm, size),
        tuple(range(_SEEDS[size])), horizon=TRAINED[size],
        cost=2.0 if arm in ('ppo', 'sao', 'chunked') else 1.0, group=f'macro {macro}',
        tests={f'L{i + 1}': {'task.level': i + 1, 'task.lower': 0} for i in range(TESTED[size])},
        room={'task.max_level': TESTED[size],
              'window.turns': turns(TRAINED[size], macro) - 1}))
  return made


def rows(results: Sequence[Mapping[str, Any]],
         curves: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
  """What the table compares: one row for each level that a run was tested on."""
  del curves
  levels = [f'L{i + 1}' for i in range(TESTED['full']) if f'test/L{i + 1}' in results[0]]
  return [dict(row, setting=level, horizon=ladder.EMPTY[i], test_success=row[f'test/{level}'])
          for i, level in enumerate(levels) for row in results]
