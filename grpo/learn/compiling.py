"""How much the compiler should do for a program: little where that program runs only briefly.

On a CPU, LLVM's optimiser takes two thirds of the time in which a training step compiles, and the
step then runs three to four times faster. A run of a few seconds never earns that back.
"""

import os
import re

import jax

__all__ = ['options', 'BRIEF']

# Positions that a brief program reads, times layers and hidden width. Measured with eight seeds of
# small decoders: above it the optimiser's seconds come back within the run.
BRIEF = 1.5e6


def options(model, positions: float) -> dict:
  """Compiler options of a program that reads `positions` tokens of one seed, pads included.

  Args:
    model: the config's section of that name.
    positions: over all calls of the program in a run.

  Returns:
    Options for `jax.jit`; empty on an accelerator, for longer work, or where XLA_FLAGS asks for a
    level of its own.
  """
  if jax.default_backend() != 'cpu':
    return {}
  level = re.search(r'xla_backend_optimization_level=(\d+)', os.environ.get('XLA_FLAGS', ''))
  if level and level.group(1) != '1':  # 1 is what the commands ask for
    return {}
  width = model.get('layers', 1) * model.get('hidden', 1)
  return {'xla_backend_optimization_level': 0} if positions * width <= BRIEF else {}
