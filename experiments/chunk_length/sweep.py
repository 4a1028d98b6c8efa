"""Chunk length against dependency length: T = 16 turns, of which 2, 4 or 8 decide."""

from scripts import cells as sweep_cells

BASE = 'whole'
SCORE = 'success_last'  # success on fresh episodes after the last step; fixed before the first run

TURNS = 16
LENGTHS = (1, 2, 4, 8, 16)  # turns of a chunk
DECISIVE = (8, 4, 2)        # decisive turns, so that a dependency spans 2, 4 or 8 turns
BOOTSTRAPS = ('none', 'group', 'critic')
_SEEDS = dict(smoke=2, small=8, full=16)


def dependency(decisive: int) -> int:
  """Turns from the last decisive one to the end, both included."""
  return TURNS // decisive


def arms() -> dict[str, tuple[str, int]]:
  """Arm -> bootstrap and chunk length. One chunk has nothing behind it: there all three agree."""
  made = {'whole': ('none', TURNS)}
  return made | {f'{bootstrap} {length}': (bootstrap, length) for bootstrap in BOOTSTRAPS
                 for length in LENGTHS if length < TURNS}


def overrides(bootstrap: str, size: str) -> dict:
  """Of all cells with that bootstrap: they differ in numbers that one program takes."""
  made = {'task.horizon': TURNS, 'task.decisive': DECISIVE[0], 'window.turns': TURNS,
          'method.chunk': dict(name='turns', length=1, count=TURNS),
          'method.returns': dict(name='look_ahead', n=0, discount=1.0, bootstrap=bootstrap)}
  if size == 'small':
    made |= {'model.layers': 1, 'model.hidden': 32, 'model.mlp': 32, 'model.heads': 1,
             'clone.prompts': 16, 'clone.pass_rate': 0.2, 'sample.prompts': 8, 'sample.group': 8,
             'train.minibatches': 2, 'train.learning_rate': 3e-3, 'train.warmup': 10,
             'steps': 15, 'log_every': 5, 'checkpoint.every': 15}
  elif size == 'smoke':
    made |= sweep_cells.TABLES | {'steps': 4, 'log_every': 2, 'checkpoint.every': 4}
  if bootstrap == 'critic' and size == 'small':
    made['method.critic.learning_rate'] = made['train.learning_rate']
  return made


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms for each dependency length; size smoke has the ends and the middle of one."""
  made = []
  for decisive in DECISIVE[1:2] if size == 'smoke' else DECISIVE:
    for arm, (bootstrap, length) in arms().items():
      if size == 'smoke' and length not in (4, TURNS):
        continue
      config = 'horizon_chunked_critic' if bootstrap == 'critic' else 'horizon_chunked'
      made.append(sweep_cells.Cell(
          'chunk_length', arm, 'horizon', f'dependency {dependency(decisive)}',
          f'configs/{config}.py:{size},horizon', overrides(bootstrap, size),
          tuple(range(_SEEDS[size])), horizon=dependency(decisive),
          cost=2.0 if bootstrap == 'critic' else 1.0, group=bootstrap,
          scalars={'task.decisive': decisive, 'method.chunk.length': length}))
  return made
