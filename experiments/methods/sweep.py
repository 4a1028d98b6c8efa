"""Every config on one checked answer and on eight turns, at equal rollouts."""

import pathlib

from scripts import cells as sweep_cells
from scripts import cli

BASE = 'grpo'
SCORE = 'success_last'  # success on fresh episodes after the last step; fixed before the first run

ARMS = tuple(sorted(p.stem for p in pathlib.Path(cli.ROOT / 'configs').glob('[!_]*.py')
                    if p.stem not in ('base', 'llm')))
SMOKE = ('grpo', 'dapo', 'sao', 'vine_ppo')  # one of each kind: size smoke shows that it runs
TURNS = 8
# Arms that a task cannot have: arithmetic has no potential and nothing to fork, and neither task
# has an answer of one token that can be asked for.
LEFT_OUT = dict(arithmetic=('mt_grpo', 'potential_shaping', 'arpo', 'spo_tree', 'tree_grpo',
                            'treerl', 'igpo'), horizon=('igpo',))
# Rows that are played for each one that is trained on: continuations from every boundary, a greedy
# episode, episodes of the reference, groups to choose from. They are rollouts as well, so such an
# arm gets fewer prompts. OWN is what makes the number divide the budget of the task.
EXTRA = dict(
    arithmetic=dict(vine_ppo=4, counterfactual=4, spo_chain=4, remax=2, a_star_po=8, dapo=2),
    horizon=dict(vine_ppo=9, counterfactual=9, spo_chain=9, remax=2, a_star_po=9, dapo=3))
_CONTINUED = {'method.branch.samples': 3}
OWN = dict(
    arithmetic=dict(vine_ppo=_CONTINUED, counterfactual=_CONTINUED, spo_chain=_CONTINUED,
                    a_star_po={'sample.reference': 7}),
    horizon=dict(vine_ppo={'method.branch.samples': 1}, counterfactual={'method.branch.samples': 1},
                 spo_chain={'method.branch.samples': 2}, dapo={'sample.over': 3}))
# Prompts and group of a step, and steps. On horizon the product times length, layers, width stays
# where programs compile in seconds (grpo/learn/compiling.py); on arithmetic nothing learns there.
_BUDGET = dict(arithmetic=dict(smoke=(32, 4, 2), small=(32, 4, 50), full=(256, 16, 2000)),
               horizon=dict(smoke=(18, 4, 2), small=(18, 4, 20), full=(72, 16, 2000)))
_SEEDS = dict(smoke=2, small=8, full=16)


def setting(task: str, size: str) -> dict:
  """Overrides that all arms of a task share."""
  prompts, group, steps = _BUDGET[task][size]
  shared = {'sample.prompts': prompts, 'sample.group': group, 'train.minibatches': 2,
            'steps': steps, 'log_every': max(1, steps // 5), 'checkpoint.every': steps}
  if task == 'horizon':
    shared |= {'task.horizon': TURNS, 'task.decisive': 2, 'window.turns': TURNS}
  if size == 'full':
    return shared
  if size == 'smoke':
    return shared | sweep_cells.TABLES
  if task == 'arithmetic':  # as in experiments/quickstart; smaller models did not learn
    return shared | {'model.layers': 1, 'clone.pass_rate': 0.75, 'clone.learning_rate': 2e-3,
                     'train.learning_rate': 1e-3, 'train.warmup': 10, 'train.b2': 0.99}
  return shared | {'model.layers': 1, 'model.hidden': 32, 'model.mlp': 32, 'model.heads': 1,
                   'clone.prompts': 16, 'train.learning_rate': 3e-3, 'train.warmup': 10}


def overrides(arm: str, task: str, size: str) -> dict:
  """Those of the task, and what keeps the arm's rollouts and its critic comparable."""
  made = setting(task, size)
  plain = cli.load(f'configs/{arm}.py:{size},{task}')
  prompts, group, steps = _BUDGET[task][size]
  if plain.sample.group == 1:
    made |= {'sample.prompts': prompts * group, 'sample.group': 1}
  made['sample.prompts'] //= EXTRA[task].get(arm, 1)
  if plain.train.minibatches == 1:  # no ratio to correct a second update with
    del made['train.minibatches']
  if plain.method.critic.name != 'none':
    made['method.critic.learning_rate'] = made.get('train.learning_rate',
                                                   plain.train.learning_rate)
    if plain.method.critic.warmup:  # a share of its steps trains the critic alone
      made['method.critic.warmup'] = max(1, steps // 10)
  return made | OWN[task].get(arm, {})


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms that a task can have, or few; the seeds of an arm are those of every other arm."""
  made, arms = [], SMOKE if size == 'smoke' else (*ARMS, 'placebo')
  for task, name, turns, cost in (('arithmetic', 'one answer', 1, 1.0),
                                  ('horizon', f'{TURNS} turns', TURNS, 1.5)):
    for arm in (a for a in arms if a not in LEFT_OUT[task]):
      variant = 'grpo' if arm == 'placebo' else arm
      chosen = overrides(variant, task, size)
      if arm == 'placebo':  # a coin for a reward: no arm should be level with it
        chosen['method.shape'] = dict(placebo=dict(name='placebo', share=0.5))
      heavy = 1.5 if 'method.critic.learning_rate' in chosen or arm in EXTRA[task] else 1.0
      made.append(sweep_cells.Cell(
          'methods', arm, task, name, f'configs/{variant}.py:{size},{task}', chosen,
          tuple(range(_SEEDS[size])), horizon=turns, cost=cost * heavy))
  return made
