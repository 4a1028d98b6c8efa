"""What returns and advantages may look at, besides the rewards."""

import jax

from grpo import types

__all__ = ['Context']


@types.pytree
class Context:
  """Facts of a batch of trajectories by chunk. None where a run has no such thing."""
  tokens_PGK: jax.Array            # int32; trained tokens of the chunk
  lengths_PG: jax.Array            # int32; trained tokens of the trajectory
  truncated_PG: jax.Array          # bool; a limit cut it, the task did not end it
  state_id_PGK: jax.Array          # uint32; environment state before the chunk
  values_PGK: jax.Array | None     # f32; critic's value before the chunk's first token
  bootstrap_PG: jax.Array | None   # f32; critic's value after the last token of the row
  baseline: jax.Array | None       # f32 [P,G,1]; what `minus_baseline` subtracts
  parts_PGN: jax.Array | None = None  # f32; episode rewards: the task's, what each shape added
