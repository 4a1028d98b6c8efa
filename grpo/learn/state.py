"""Everything that decides the future of a run, in one pytree of arrays."""

from typing import Any

import jax
import jax.numpy as jnp

from grpo import types

__all__ = ['TrainState', 'COUNTERS', 'no_counts', 'count', 'values']

# What a run has consumed so far, in the order of `TrainState.counters`.
COUNTERS = (
    'rollouts',
    'prompt_tokens',    # prompt tokens read by the sampler, once a group and window
    'context_tokens',   # all other tokens read by the sampler, observations and copies too
    'sampled_tokens',   # tokens that the policy chose
    'trained_tokens',   # tokens that carried a loss, times the passes over them
)


@types.pytree
class TrainState:
  """State of one seed; a run of several seeds has a leading axis on every leaf.

  `bad_step` is -1, or the first step whose loss or gradient was not finite. From that step on
  nothing is learned, so parameters and optimisers are those of the last good step.
  """
  step: jax.Array           # int32 []; optimiser rounds done; also the data position
  key: jax.Array            # root key []; never split, see keys.stream
  params: Any
  opt_state: Any
  critic_params: Any        # None without a critic
  critic_opt_state: Any     # None without a critic
  reference: Any            # None where no slot reads a reference
  waiting: Any              # types.Rollout [lag, ...] of the delay line; None without lag
  counters: jax.Array       # uint32 [5, 2], low and high words of COUNTERS
  bad_step: jax.Array       # int32 []
  gradient: Any = None      # sum of the policy's gradients of the last step; None unless compared
  memory: Any = None        # what slots of the method keep, by label; None where none does


def no_counts():
  """Counters of a run that has not begun."""
  return jnp.zeros([len(COUNTERS), 2], jnp.uint32)


def count(counters, **amounts):
  """Adds amounts, each below 2^31, with carry."""
  added = jnp.stack([jnp.asarray(amounts[name]).astype(jnp.uint32) for name in COUNTERS])
  low = counters[:, 0] + added
  return jnp.stack([low, counters[:, 1] + (low < added).astype(jnp.uint32)], axis=1)


def values(counters) -> dict[str, int]:
  """The numbers that counters hold (host side)."""
  return {name: int(x[0]) + (int(x[1]) << 32) for name, x in zip(COUNTERS, counters, strict=True)}
