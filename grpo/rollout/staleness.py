"""The delay line: rollouts wait a constant number of steps before they are trained on.

The line is part of the state, so asynchrony is exact and repeatable: what leaves it carries the
version and the log-probs of the policy that sampled it.
"""

import jax
import jax.numpy as jnp

__all__ = ['empty', 'exchange']


def empty(rollout_shapes, lag: int):
  """A line of `lag` places, or None for a lag of 0.

  Args:
    rollout_shapes: pytree of jax.ShapeDtypeStruct of one rollout.
    lag: steps that a rollout waits.
  """
  if lag == 0:
    return None
  return jax.tree.map(lambda x: jnp.zeros((lag, *x.shape), x.dtype), rollout_shapes)


def exchange(line, rollout, step):
  """Puts a fresh rollout into the line and takes out the one whose time has come.

  In the first `lag` steps nothing has waited long enough: what leaves is all zeros, its mask is
  empty, and the step trains on nothing. `ready` says so.

  Args:
    line: pytree [lag, ...] or None.
    rollout: pytree, sampled at `step`.
    step: int32 [].

  Returns:
    (line, rollout to train on, ready bool []).
  """
  if line is None:
    return None, rollout, jnp.asarray(True)
  lag = jax.tree.leaves(line)[0].shape[0]
  place = step % lag
  old = jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, place, 0, keepdims=False), line)
  line = jax.tree.map(lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y, place, 0),
                      line, rollout)
  return line, old, step >= lag
