"""Compaction with summaries that the policy writes: what is a sample, and how credit is shared.

An episode fills up to three windows. What the policy has to keep in mind, the mode, is told once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scripts import cells as sweep_cells

BASE = 'rollouts'
SCORE = 'score'   # success after the last step, on fresh episodes; fixed before the first run

ARMS = ('rollouts', 'segments', 'ppo', 'ppo_token', 'cross_rollout', 'cross_segment', 'untrained',
        'keep_last')
CRITICS = ARMS[2:6]
_CONFIGS = dict(segments='grpo_segments', ppo='compaction_rl', ppo_token='compaction_rl',
                cross_rollout='compaction_rl', cross_segment='compaction_rl')
_SEEDS = dict(smoke=range(2), small=range(10, 20), full=range(10, 30))  # 0 to 2: a pilot
TURNS = dict(smoke=5, small=13, full=17)
# Where a policy is tested: name, windows of an episode there, and the column of results.csv.
TESTED = (('with compaction', 3, 'success_last'), ('without', 1, 'test/whole'))


def overrides(arm: str, size: str) -> dict:
  """What an arm changes; all play as many episodes, and windows differ in `keep_last` alone."""
  turns = TURNS[size]
  made = {'task.horizon': turns, 'task.decisive': 4, 'task.drift': 0.15, 'task.fatal': 1.0,
          'window.turns': 4, 'window.carry': 1, 'window.summary': 2}
  if size == 'smoke':
    made |= sweep_cells.TABLES | {'steps': 2, 'log_every': 2, 'checkpoint.every': 2,
                                  'task.decisive': 2, 'window.turns': 2}
  elif size == 'small':
    made |= {'model.layers': 1, 'model.hidden': 32, 'model.mlp': 64, 'model.heads': 2,
             'clone.pass_rate': 0.35, 'clone.prompts': 32, 'clone.every': 5, 'clone.steps': 1000,
             'clone.learning_rate': 3e-3, 'evaluate.prompts': 256, 'sample.prompts': 8,
             'sample.group': 8, 'train.minibatches': 2, 'train.learning_rate': 1e-3,
             'train.warmup': 10, 'train.b2': 0.99, 'steps': 100, 'log_every': 20,
             'checkpoint.every': 100}
  if arm in CRITICS:
    if size == 'small':
      made['sample.prompts'] *= made.pop('sample.group')
      made['method.critic.learning_rate'] = made['train.learning_rate']
      made['method.critic.warmup'] = made['steps'] // 10
    if arm in ('ppo', 'ppo_token'):
      made['method.returns'] = dict(name='adaptive_segment_return', alpha=1.5, discount=1.0)
    if arm == 'cross_segment':
      made['method.returns'] = dict(name='adaptive_cross_segment_return', alpha=1.5,
                                    length='segment', discount=1.0)
  if arm == 'ppo':
    made['method.aggregate'] = dict(name='window')
  if arm in ('rollouts', 'untrained', 'keep_last'):
    made['method.aggregate'] = dict(name='token')
  if arm == 'untrained':
    made['train.summaries'] = 0
  if arm == 'keep_last':   # as many tokens of the past, as they came
    made |= {'window.summary': 0, 'window.carry': 2}
  return made


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms. Tests show the whole episode in one window, to the same weights."""
  turns = TURNS[size]
  return [sweep_cells.Cell(
      'compaction', arm, 'horizon', f'{turns} turns',
      f'configs/{_CONFIGS.get(arm, "grpo")}.py:{size},horizon', overrides(arm, size),
      tuple(_SEEDS[size]), horizon=turns, cost=2.0 if arm in CRITICS else 1.0,
      group='kept turns' if arm == 'keep_last' else 'summaries',
      tests={'whole': {'task.fatal': 1.0}}, room={'window.turns': turns},
      watch=('length/tokens', 'length/turns'))
          for arm in (('rollouts', 'cross_segment', 'keep_last') if size == 'smoke' else ARMS)]


def rows(results: Sequence[Mapping[str, Any]],
         curves: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
  """What the table compares: each run tested with and without compaction."""
  del curves
  return [dict(row, setting=setting, windows=windows, score=row[column])
          for setting, windows, column in TESTED for row in results]
