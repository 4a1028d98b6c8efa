"""Branching from restored states against a critic and a group, where failures can be undone or not.

Six turns, of which the first of each pair decides; the second one of a pair can repair with
probability b. Restored states are used in training alone: every score is that of plain episodes.
"""

from scripts import cells as sweep_cells

BASE = 'group'          # GRPO
SCORE = 'success_last'  # success on fresh episodes after the last step; fixed before the first run

TURNS, DECISIVE = 6, 3
GROUP = 8
PROMPTS = dict(smoke=14, small=14, full=56)
RATE, STEPS = 2e-3, dict(smoke=4, small=20, full=500)
# Setting -> undo b and visibility v.
SETTINGS = {'undo 0': (0.0, 1.0), 'undo 0.5': (0.5, 1.0), 'undo 1': (1.0, 1.0),
            'undo 0, hidden': (0.0, 0.0)}
TREES = ('tree_grpo', 'treerl', 'spo_tree')
LAMBDAS = (0.95, 0.5)
CRITICS = tuple(f'critic {lam}' for lam in LAMBDAS)
FREE = 'vine_free'      # the arm whose continuations are not counted: its budget is what it trains
CONTINUATIONS = {'vine': 1, FREE: 3}  # from each turn of each sample
# Controls, added when the first results had been seen: the arm they are but for their number of
# prompts, and its share. LESS is what branching would play if shared turns were played once; FEW
# train on as many rows as `vine` does.
LESS = {'group_less': (BASE, 4 / 7), 'critic_less': (CRITICS[0], 4 / 7)}
FEW = {'group_few': (BASE, 1 / 7), 'critic_few': (CRITICS[0], 1 / 7), 'vine_few': (FREE, 1 / 7)}
_SEEDS = dict(smoke=2, small=10, full=16)


def played(arm: str) -> int:
  """Rollouts that an arm plays for each one that it trains on, those included."""
  whole, _ = (LESS | FEW).get(arm, (arm, 1.0))
  return 1 + TURNS * CONTINUATIONS.get(whole, 0)


def shared(size: str) -> dict:
  """Overrides of all arms."""
  made = {'task.horizon': TURNS, 'task.decisive': DECISIVE, 'window.turns': TURNS,
          'sample.prompts': PROMPTS[size], 'sample.group': GROUP, 'train.minibatches': 2,
          'steps': STEPS[size], 'log_every': max(1, STEPS[size] // 5),
          'checkpoint.every': STEPS[size]}
  if size == 'smoke':
    return made | sweep_cells.TABLES | {'train.learning_rate': 0.1}
  if size == 'small':
    made |= {'model.layers': 1, 'model.hidden': 32, 'model.mlp': 32, 'model.heads': 1,
             'clone.prompts': 16, 'clone.pass_rate': 0.2, 'train.learning_rate': RATE,
             'train.warmup': 10}
  return made


def arms(size: str) -> dict[str, tuple[str, dict, dict]]:
  """Arm -> config, what it overrides, and numbers that one program takes."""
  prompts = PROMPTS[size]
  made = {BASE: ('grpo', {}, {})}
  single = {'sample.prompts': prompts * GROUP, 'sample.group': 1}
  if size == 'small':  # a critic learns at the rate of the policy
    single['method.critic.learning_rate'] = RATE
  for arm, lam in zip(CRITICS, LAMBDAS, strict=True):
    made[arm] = 'turn_ppo', single, {'method.returns.lam': lam, 'method.critic.lam': lam}
  made |= {tree: (tree, {}, {}) for tree in TREES}
  for arm, samples in CONTINUATIONS.items():
    count = prompts if arm == FREE else prompts // played(arm)
    made[arm] = 'vine_ppo', {'sample.prompts': count, 'method.branch.samples': samples}, {}
  for arm, (whole, share) in (LESS | FEW).items():
    config, changes, numbers = made[whole]
    fewer = round(changes.get('sample.prompts', prompts) * share)
    made[arm] = config, changes | {'sample.prompts': fewer}, numbers
  return made


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms in all settings; size smoke has one setting and no controls."""
  made = []
  for setting, (undo, visibility) in SETTINGS.items():
    for arm, (config, changes, numbers) in arms(size).items():
      if size == 'smoke' and (setting != 'undo 1' or arm in LESS | FEW):
        continue
      made.append(sweep_cells.Cell(
          'rollback', arm, 'horizon', setting, f'configs/{config}.py:{size},horizon',
          shared(size) | changes, tuple(range(_SEEDS[size])), horizon=TURNS,
          cost=4.0 if arm == FREE else 1.5 if config == 'turn_ppo' else 1.0,
          group='critic' if arm in CRITICS else arm,
          scalars=numbers | {'task.undo': undo, 'task.visibility': visibility}))
  return made
