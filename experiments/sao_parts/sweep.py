"""The parts of SAO as a factorial: each on and off, in every combination that means something."""

from collections.abc import Mapping, Sequence
import itertools
from typing import Any

from experiments.sao_stability import sweep as stability
from scripts import cells as sweep_cells

BASE = 'without'        # no part at all: GRPO; in a comparison, the level without the part
SCORE = 'success_last'  # success on fresh episodes after the last step; fixed before the first run

PARTS = ('mask', 'single', 'critic')              # each can be had by itself
OF_CRITIC = ('frozen', 'warm', 'rule', 'twice')   # parts of a critic: no critic, no such part
LAG, RATE, STEPS = 6, 6e-3, 40
_SEEDS = dict(smoke=2, small=10, full=16)
_COSTS = ('rollouts', 'tokens_sampled', 'tokens_trained', 'policy_flops', 'critic_flops', 'steps')


def combinations(size: str) -> list[tuple[str, ...]]:
  """Sets of parts that are on: 4 without a critic and 4 x 16 with one.

  Size smoke has the mask, the critic and what is a number of it.
  """
  def every(parts):
    return [tuple(part for part, is_on in zip(parts, on, strict=True) if is_on)
            for on in itertools.product((False, True), repeat=len(parts))]

  first, nested = ((PARTS, OF_CRITIC) if size != 'smoke' else
                   (('mask', 'critic'), ('warm', 'rule')))
  return [chosen + more for chosen in every(first)
          for more in (every(nested) if 'critic' in chosen else [()])]


def overrides(on: Sequence[str], size: str) -> tuple[dict, dict]:
  """Fields and traced numbers of a combination; the config is that of GRPO."""
  made = stability.setting(size, STEPS) | {'sample.lag': LAG}
  if 'single' in on:
    made = stability.singled(made) | stability.MEAN
  numbers = stability.bound('dis' if 'mask' in on else 'clip') | {'train.learning_rate': RATE}
  if 'critic' not in on:
    return made, numbers
  warm, rate = stability.critic(made, RATE)
  made |= {'method.chunk': dict(name='token'), 'method.advantages': dict(name='critic'),
           'method.returns': dict(name='adaptive_lambda_return', alpha=1.5, discount=1.0),
           'method.critic': dict(
               name='value', lam=1.0, discount=1.0, updates=2 if 'twice' in on else 1, warmup=0,
               learning_rate=RATE, freeze='attention' if 'frozen' in on else '', clip=0.0,
               start='policy', bootstrap='critic', rows='all')}
  numbers |= rate | {'method.critic.warmup': warm['method.critic.warmup'] if 'warm' in on else 0,
                     'method.returns.alpha': 1.5 if 'rule' in on else 1e9}  # 1e9: lambda is 1
  return made, numbers


def cells(size: str) -> list[sweep_cells.Cell]:
  """All combinations. Warm-up and the rule for lambda are numbers of one program."""
  made = []
  for on in combinations(size):
    chosen, numbers = overrides(on, size)
    static = [p for p in on if p not in ('warm', 'rule')]
    made.append(sweep_cells.Cell(
        'sao_parts', '+'.join(on) or BASE, 'horizon', f'staleness {LAG}',
        f'configs/grpo.py:{size},horizon', chosen, tuple(range(_SEEDS[size])), horizon=LAG,
        cost=2.0 if 'critic' in on else 1.0, group='+'.join(static), scalars=numbers,
        watch=stability.WATCH[:2] + (stability.OF_CRITIC[:1] if 'critic' in on else ())))
  return made


def effects() -> list[tuple[str, ...]]:
  """Main effects, then pairs. A part of a critic has no pair with `critic`: it needs one."""
  parts = PARTS + OF_CRITIC
  pairs = [x for x in itertools.combinations(parts, 2)
           if not ('critic' in x and set(x) & set(OF_CRITIC))]
  return [(p,) for p in parts] + pairs


def compared(effect: tuple[str, ...], has: set[str]) -> bool:
  """Whether a combination takes part in an effect.

  Mask, single and critic: the eight combinations whose critic, if any, has all its parts. Parts of
  a critic, also in a pair with mask or single: the 64 that have a critic.
  """
  if set(effect) & set(OF_CRITIC):
    return 'critic' in has
  return 'critic' not in has or set(OF_CRITIC) <= has


def rows(results: Sequence[Mapping[str, Any]],
         curves: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
  """What the table compares: for each effect and seed, the mean with and without.

  An effect of one part is the mean of the runs that have it minus the mean of those that do not; of
  a pair, half the difference between what one part does with and without the other: runs with both
  or neither against runs with one of them.
  """
  del curves
  made, seeds = [], list(dict.fromkeys(r['seed'] for r in results))
  smoke = not any('twice' in r['arm'] for r in results)  # its critics have few parts
  for effect in effects():
    for level, seed in itertools.product((BASE, 'with'), seeds):
      runs = []
      for r in results:
        has = set(r['arm'].split('+'))
        even = (len(effect) - len(has & set(effect))) % 2 == 0
        if r['seed'] == seed and even == (level == 'with') and (
            smoke or compared(effect, has)):
          runs.append(r)
      if not runs:
        continue
      mean = lambda column: sum(r[column] for r in runs) / len(runs)
      made.append(dict(arm=level, task='horizon', setting=' x '.join(effect), seed=seed,
                       horizon=len(effect), **{c: mean(c) for c in (SCORE, *_COSTS)}))
  return made
