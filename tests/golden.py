"""Worked examples of published methods (golden.json), and how tests run them.

The numbers come from the papers' formulas and were compared with their public implementations; they
change only when a formula was wrong. Compiling is what these tests spend their time on: NumPy in,
one jitted function, NumPy out.
"""

import json
import pathlib

from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

GOLDEN = json.loads((pathlib.Path(__file__).parent / 'golden.json').read_text())


def both_types(test):
  """Runs a test in float64 at 1e-10 and in float32 at 1e-5."""
  @parameterized.named_parameters(('float64', jnp.float64, 1e-10), ('float32', jnp.float32, 1e-5))
  def run(self, dtype, tol):
    with jax.enable_x64(dtype == jnp.float64):
      test(self, lambda x: np.asarray(x, dtype), tol)
  return run


def row(x):
  """One trajectory as [1,1,T]."""
  return x[None, None]
