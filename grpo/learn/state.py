"""Everything that decides the future of a run, in one pytree of arrays."""

from typing import Any

import jax
import jax.numpy as jnp

from grpo import types

__all__ = ['TrainState', 'Counters', 'count', 'value']


@types.pytree
class Counters:
  """What a run has consumed so far. Each is uint32 [2], low and high word: see `value`."""
  rollouts: jax.Array
  prompt_tokens: jax.Array    # prompt tokens read by the sampler, once a group and window
  context_tokens: jax.Array   # all other tokens read by the sampler, observations and copies too
  sampled_tokens: jax.Array   # tokens that the policy chose
  trained_tokens: jax.Array   # tokens that carried a loss, times the passes over them

  @classmethod
  def zero(cls) -> 'Counters':
    return cls(*[jnp.zeros([2], jnp.uint32) for _ in range(5)])


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
  counters: Counters
  bad_step: jax.Array       # int32 []


def count(counter, amount):
  """Adds `amount` (below 2^31) to a uint32 [2] counter, with carry."""
  low = counter[0] + jnp.asarray(amount, jnp.uint32)
  return jnp.stack([low, counter[1] + (low < counter[0]).astype(jnp.uint32)])


def value(counter) -> int:
  """The number held by a counter (host side)."""
  return int(counter[0]) + (int(counter[1]) << 32)
