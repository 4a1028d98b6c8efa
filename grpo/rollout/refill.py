"""Dynamic sampling: more groups are played than are trained on, and filters choose which.

DAPO, arXiv:2503.14476, section 3.2, samples until the batch is full of groups that its filter
keeps. In one program shapes are fixed, so a step plays `sample.over` times as many groups as it
needs, at once, and takes the first that pass. Only if there are too few of them does the batch hold
others: the filter drops those again when credit is given, so what is trained on is a full batch or
a smaller one, never a flat group. All episodes are counted, chosen or not.
"""

import jax
import jax.numpy as jnp

from grpo import types
from grpo.objective import filters

__all__ = ['first']


def first(slots, rollout: types.Rollout, wanted: int, now) -> tuple[types.Rollout, dict]:
  """The first `wanted` groups of which the filters keep a row, in the order of sampling.

  Where fewer pass, the first of the others stand behind them. Between `wanted` and all groups
  nothing is drawn: the choice is a stable partition. Prompts that are easy or hopeless now are left
  to a later step, so what is trained on is biased to the middle; metrics of rollouts are those of
  all that was sampled.

  Args:
    slots: filters of the method.
    rollout: [P over,G,...], as sampled.
    wanted: P.
    now: parameter version.

  Returns:
    (rollout [P,G,...], metrics).
  """
  passed_P = jnp.any(filters.combine(slots, filters.seen(rollout, now)), axis=1)
  order_P = jnp.argsort(~passed_P, stable=True)[:wanted]
  found = jnp.sum(passed_P)
  metrics = {'refill/passed': types.Mean.of(passed_P),
             'refill/full': types.Mean.of(found >= wanted)}
  return jax.tree.map(lambda x: x[order_P], rollout), metrics
