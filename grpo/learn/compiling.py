"""How much the compiler should do for a program: little where that program runs only briefly.

On a CPU, LLVM is two thirds of the time in which a training step compiles. Without its optimiser
the step runs three to four times slower, which a run of a few seconds never earns back; at level 1,
which jax 0.10 compiles in half the time, it runs about an eighth slower.
"""

import os

import jax

__all__ = ['options', 'BRIEF', 'LONG']

# Positions that a program reads, times layers and hidden width. Measured with eight seeds of small
# decoders: above BRIEF level 1 earns its seconds back within the run, and above LONG all levels do.
BRIEF, LONG = 4e6, 1e8


def options(model, positions: float) -> dict:
  """Compiler options of a program that reads `positions` tokens of one seed, pads included.

  Args:
    model: the config's section of that name.
    positions: over all calls of the program in a run.

  Returns:
    Options for `jax.jit`; empty on an accelerator, for long work, or where XLA_FLAGS asks for a
    level of its own.
  """
  if jax.default_backend() != 'cpu':
    return {}
  if 'xla_backend_optimization_level' in os.environ.get('XLA_FLAGS', ''):
    return {}
  if model.get('name') == 'hf':  # its products are those of a library, which is compiled already
    return {'xla_backend_optimization_level': 1} if jax.__version_info__ < (0, 11) else {}
  work = positions * model.get('layers', 1) * model.get('hidden', 1)
  if work <= BRIEF:
    return {'xla_backend_optimization_level': 0}
  if work <= LONG and jax.__version_info__ < (0, 11):  # later versions gain nothing from level 1
    return {'xla_backend_optimization_level': 1}
  return {}
