"""What returns and advantages may look at, besides the rewards."""

import jax
import jax.numpy as jnp

from grpo import masked
from grpo import types
from grpo.objective import chunks

__all__ = ['Context', 'gather']


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
  rewards_PGK: jax.Array | None = None    # f32; reward of the chunk, after shaping
  turn_PGK: jax.Array | None = None       # int32; turn of the chunk's first token, -1 if invalid
  segment_PGK: jax.Array | None = None    # int32; window of the chunk's first token, likewise
  entropy_PGK: jax.Array | None = None    # f32; mean entropy of the chunk's tokens, nats
  potential_PGK: jax.Array | None = None  # f32; the task's potential before the chunk
  node_PGK: jax.Array | None = None       # int32; equal for samples that share the chunk, or -1
  answer_PGK: jax.Array | None = None     # f32; probability of the right answer before the chunk
  guide_PN: jax.Array | None = None       # f32; rewards of the reference on the same prompt


def gather(chunk_PGT, count: int, rollout: types.Rollout, *, rewards_PGT, turn_PGT, segment_PGT,
           values_PGT=None, bootstrap_PG=None, baseline_PG=None, parts_PGN=None, entropy_PGT=None,
           potential_PGT=None, nodes_KG=None, guide_PN=None,
           answer_PGT=None) -> Context:
  """Facts by token or by turn to facts by chunk; a chunk has those of its first token."""
  first = lambda x_PGT: None if x_PGT is None else chunks.first(x_PGT, chunk_PGT, count)
  tokens_PGK = chunks.tokens(chunk_PGT, count)
  valid_PGK = tokens_PGK > 0
  turn_PGK = jnp.where(valid_PGK, first(turn_PGT), -1)
  entropy_PGK = None
  if entropy_PGT is not None:
    entropy_PGK = masked.divide(chunks.total(entropy_PGT, chunk_PGT, count),
                                tokens_PGK.astype(entropy_PGT.dtype))
  return Context(
      tokens_PGK=tokens_PGK, lengths_PG=jnp.sum(chunk_PGT >= 0, axis=2, dtype=jnp.int32),
      truncated_PG=rollout.truncated, state_id_PGK=first(types.stream(rollout.state_id)),
      values_PGK=first(values_PGT), bootstrap_PG=bootstrap_PG,
      baseline=None if baseline_PG is None else baseline_PG[..., None], parts_PGN=parts_PGN,
      rewards_PGK=chunks.total(rewards_PGT, chunk_PGT, count), turn_PGK=turn_PGK,
      segment_PGK=jnp.where(valid_PGK, first(segment_PGT), -1), entropy_PGK=entropy_PGK,
      potential_PGK=first(potential_PGT), guide_PN=guide_PN,
      answer_PGK=first(answer_PGT),
      node_PGK=None if nodes_KG is None else _nodes(nodes_KG, turn_PGK))


def _nodes(nodes_KG, turn_PGK):
  """Node of each chunk, that of its first turn; -1 for an invalid one."""
  table_PGK = jnp.zeros_like(turn_PGK[..., :1]) + jnp.asarray(nodes_KG, jnp.int32).T[None]
  node_PGK = jnp.take_along_axis(table_PGK, jnp.maximum(turn_PGK, 0), axis=2)
  return jnp.where(turn_PGK < 0, -1, node_PGK)
