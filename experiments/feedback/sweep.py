"""Credit of turns where outcomes add up and where they are parities, paid at once or at the end."""

from collections.abc import Mapping, Sequence
from typing import Any

from scripts import cells as sweep_cells

BASE = 'whole'
SCORE = 'gain'  # share of what was left to earn; fixed before the first run

TURNS, DECISIVE = 16, 4
ORDERS = (1, 2, 4)                  # decisive turns that are paid together, by parity
DELAYS = {'at once': 0.0, 'at the end': 1.0}   # share of every reward that waits for the last turn
# Arm -> config, and what stands in its slots.
ARMS = dict(
    whole=('grpo', {}),
    to_go=('horizon_chunked_turn', {}),
    own=('horizon_chunked_turn', {'method.returns': dict(name='look_ahead', n=0, discount=1.0,
                                                        bootstrap='none')}),
    anchors=('gigpo', {}),
    critic=('turn_ppo', {}))
# Steps after which `whole` had made half of its way in a pilot (seeds 0 to 2), by order; scores are
# means over twice as many, so that orders are compared at the same difficulty.
HALF = {1: 20, 2: 30, 4: 50}
STEPS = dict(smoke=4, small=100, full=100)
_SEEDS = dict(smoke=range(2), small=range(10, 26), full=range(10, 42))


def overrides(arm: str, size: str) -> dict:
  """Of all cells of an arm: they differ in numbers that one program takes."""
  made = {'task.horizon': TURNS, 'task.decisive': DECISIVE, 'task.order': 1,
          'window.turns': TURNS, 'method.shape': dict(late=dict(name='at_end', share=0.0))}
  if size == 'small':
    made |= {'model.layers': 1, 'model.hidden': 32, 'model.mlp': 32, 'model.heads': 1,
             'clone.prompts': 16, 'clone.steps': 100, 'clone.every': 50, 'clone.pass_rate': 1.0,
             'evaluate.prompts': 256, 'sample.prompts': 4, 'sample.group': 4,
             'train.minibatches': 1, 'train.learning_rate': 3e-3, 'train.warmup': 10,
             'steps': STEPS[size], 'log_every': 5, 'checkpoint.every': STEPS[size]}
  elif size == 'smoke':
    made |= sweep_cells.TABLES | {'steps': STEPS[size], 'log_every': 2,
                                  'checkpoint.every': STEPS[size], 'clone.pass_rate': 1.0}
  if arm == 'critic' and size == 'small':
    made['sample.prompts'] *= made.pop('sample.group')
    made['method.critic.learning_rate'] = made['train.learning_rate']
  return made | ARMS[arm][1]


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms under each order and delay; size smoke has three arms and the ends of both."""
  made = []
  for delay, share in DELAYS.items():
    for order in ORDERS:
      for arm in ARMS:
        if size == 'smoke' and (arm in ('anchors', 'own') or order == 2):
          continue
        made.append(sweep_cells.Cell(
            'feedback', arm, 'horizon', f'order {order}, {delay}',
            f'configs/{ARMS[arm][0]}.py:{size},horizon', overrides(arm, size),
            tuple(_SEEDS[size]), horizon=order, cost=2.0 if arm == 'critic' else 1.0, group=arm,
            scalars={'task.order': order, 'method.shape.late.share': share},
            tests={'right': {'task.order': 0}}))
  return made
