"""Credit of turns where outcomes add up and where they are parities, paid at once or at the end."""

from collections.abc import Mapping, Sequence
from typing import Any

from scripts import cells as sweep_cells

BASE = 'whole'
SCORE = 'gain'  # share of what was left to earn; fixed before the first run

TURNS, DECISIVE = 12, 3
ORDERS = (1, 3)                     # decisive turns that are paid together, by parity
DELAYS = {'at once': 0.0, 'at the end': 1.0}   # share of every reward that waits for the last turn
# Arm -> config, and what stands in its slots.
ARMS = dict(
    whole=('grpo', {}),
    to_go=('horizon_chunked_turn', {}),
    own=('horizon_chunked_turn', {'method.returns': dict(name='look_ahead', n=0, discount=1.0,
                                                        bootstrap='none')}),
    anchors=('gigpo', {}),
    critic=('turn_ppo', {}))
# Step at which `whole` had made half of its way in a pilot (seeds 0 to 7), by order. The score is a
# mean over twice as many, so that orders are compared at the same difficulty.
HALF = {1: 20, 3: 25}
STEPS = dict(smoke=4, small=60, full=60)
_SEEDS = dict(smoke=range(2), small=range(10, 22), full=range(10, 42))


def overrides(arm: str, size: str) -> dict:
  """Of all cells of an arm: they differ in numbers that one program takes."""
  made = {'task.horizon': TURNS, 'task.decisive': DECISIVE, 'task.order': 1,
          'window.turns': TURNS, 'method.shape': dict(late=dict(name='at_end', share=0.0))}
  if size != 'smoke':
    made |= {'model.layers': 1, 'model.hidden': 32, 'model.mlp': 32, 'model.heads': 1,
             'clone.prompts': 16, 'clone.steps': 125, 'clone.every': 25, 'clone.pass_rate': 1.0,
             'evaluate.prompts': 256, 'sample.prompts': 4, 'sample.group': 8,
             'train.minibatches': 1, 'train.learning_rate': 3e-3, 'train.warmup': 10,
             'steps': STEPS[size], 'log_every': 5, 'checkpoint.every': STEPS[size]}
  else:
    made |= sweep_cells.TABLES | {'steps': STEPS[size], 'log_every': 2,
                                  'checkpoint.every': STEPS[size], 'clone.pass_rate': 1.0,
                                  'train.learning_rate': 0.1}
  if arm == 'critic' and size != 'smoke':
    made['sample.prompts'] *= made.pop('sample.group')
    made['method.critic.learning_rate'] = made['train.learning_rate']
  return made | ARMS[arm][1]


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms under each order and delay; size smoke has two arms."""
  made, start = [], 'smoke' if size == 'smoke' else 'small'
  for delay, share in DELAYS.items():
    for order in ORDERS:
      for arm in ARMS:
        if size == 'smoke' and arm not in ('whole', 'to_go'):
          continue
        made.append(sweep_cells.Cell(
            'feedback', arm, 'horizon', f'order {order}, {delay}',
            f'configs/{ARMS[arm][0]}.py:{start},horizon', overrides(arm, size),
            tuple(_SEEDS[size]), horizon=order, cost=2.0 if arm == 'critic' else 1.0, group=arm,
            scalars={'task.order': order, 'method.shape.late.share': share},
            tests={'right': {'task.order': 0}}))
  return made


def gains(rewards: Mapping[int, float], order: int) -> float:
  """Mean over evaluations of (reward - first) / (1 - first): 0 is the clone, 1 is all there is."""
  first = rewards[0]
  later = [x for step, x in rewards.items() if 0 < step <= 2 * HALF[order]]
  return sum((x - first) / (1.0 - first) for x in later) / len(later)


def rows(results: Sequence[Mapping[str, Any]],
         curves: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
  """What the table compares: the score of each run."""
  runs = {}
  for c in curves:
    runs.setdefault((c['arm'], c['setting'], c['seed']), {})[int(c['step'])] = c['reward']
  return [dict(row, gain=gains(runs[row['arm'], row['setting'], row['seed']], int(row['horizon'])))
          for row in results]
