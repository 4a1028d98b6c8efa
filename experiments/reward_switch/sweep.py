"""What is rewarded changes twice while the policy trains, and nothing that it sees tells of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.sao_stability import sweep as stability
from scripts import cells as sweep_cells

BASE = 'running'
SCORE = 'reward'  # mean reward of fresh episodes in a phase; fixed before the first run

# Arm -> config, single rollouts or not, and what else differs; the mask of SAO is everywhere.
ARMS = dict(
    running=stability.ARMS['single_running'][:2] + stability.ARMS['single_running'][3:],
    critic=('sao', True, {}),
    group=('grpo', False, {}),
    batch_single=('grpo', True, stability.MEAN),
    batch_group=('grpo', False, stability.MEAN))
# Share of the reward that style has, steps of a phase, and of those after a switch that are scored.
MANNER, PHASE, AFTER = 0.5, dict(smoke=4, small=20, full=500), dict(smoke=2, small=8, full=200)
_EVERY = dict(smoke=2, small=2, full=25)
RATE = 4e-3
_SEEDS = dict(smoke=2, small=10, full=16)


def phases(size: str) -> dict[str, tuple[int, int]]:
  """Setting -> the steps, first and last, of the evaluations that it averages."""
  phase, after, every = PHASE[size], AFTER[size], _EVERY[size]
  first = {'before a switch': (phase - after + every, phase)}
  return first | {f'after switch {i}': (i * phase + every, i * phase + after) for i in (1, 2)}


def size_of(results: Sequence[Mapping[str, Any]]) -> str:
  """The size that rows belong to, by their steps."""
  return next(size for size, phase in PHASE.items() if 3 * phase == results[0]['steps'])


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms: style pays for even actions, then for odd ones, then for even ones again."""
  phase, steps = PHASE[size], 3 * PHASE[size]
  made = []
  for arm, (config, single, changes) in ARMS.items():
    if size == 'smoke' and arm.startswith('batch'):
      continue
    shared = stability.setting(size) | {
        'task.sources': 1, 'task.unreliable': 0.0, 'task.manner': MANNER, 'steps': steps,
        'log_every': _EVERY[size], 'checkpoint.every': steps,
        'schedule': dict(manner=dict(name='stairs', at=(phase, 2 * phase),
                                     to=(MANNER, -MANNER, MANNER)))}
    chosen = (stability.singled(shared) if single else shared) | changes
    numbers = stability.bound('dis') | {'train.learning_rate': RATE}
    if arm == 'critic':
      chosen['method.critic.warmup'] = max(1, phase // 10)
      numbers['method.critic.learning_rate'] = RATE
    made.append(sweep_cells.Cell(
        'reward_switch', arm, 'horizon', 'two switches', f'configs/{config}.py:{size},horizon',
        chosen, tuple(range(_SEEDS[size])), cost=2.0 if arm == 'critic' else 1.0, group=arm,
        scalars=numbers, watch=('advantage/abs', 'entropy')))
  return made


def rows(results: Sequence[Mapping[str, Any]],
         curves: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
  """What the table compares: for each phase and run, the mean reward of some evaluations."""
  made = []
  for i, (name, (first, last)) in enumerate(phases(size_of(results)).items()):
    for row in results:
      points = [c['reward'] for c in curves if first <= c['step'] <= last
                and (c['arm'], c['seed']) == (row['arm'], row['seed'])]
      made.append(dict(row, setting=name, horizon=i, reward=sum(points) / len(points)))
  return made
