"""Rollouts of a chain made by hand, one token a turn, and their credit by the real slots."""

import jax
import jax.numpy as jnp

from grpo import types
from grpo.objective import method as methods
from grpo.study import catalogue

__all__ = ['layout', 'rollout', 'credit']


def layout(turns: int) -> types.Layout:
  """One window, one token of action and one of observation a turn."""
  return types.Layout(prompt=1, action=1, observation=1, turns=turns)


def rollout(reward_PG: jax.Array, state_id_PGT: jax.Array, mask_PGT: jax.Array) -> types.Rollout:
  """Episodes that are paid once, on their last trained token; every token is a turn."""
  index_PGT = jax.lax.broadcasted_iota(jnp.int32, mask_PGT.shape, 2)
  turn_PGT = jnp.where(mask_PGT, index_PGT, -1)
  last_PGT = index_PGT == jnp.max(turn_PGT, axis=2, keepdims=True)
  blank = jnp.zeros(mask_PGT.shape, jnp.int32)
  row = jnp.zeros(mask_PGT.shape[:2], jnp.int32)
  window = lambda x_PGT: x_PGT[:, :, None]
  return types.Rollout(
      tokens=window(blank), valid=window(mask_PGT), mask=window(mask_PGT),
      logp=window(jnp.zeros(mask_PGT.shape)),
      rewards=window(jnp.where(last_PGT, reward_PG[..., None], 0.0)), turn=window(turn_PGT),
      state_id=window(jnp.where(mask_PGT, state_id_PGT, 0).astype(jnp.uint32)), success=reward_PG,
      terminated=row == 0, truncated=row > 0, version=row, prompt_id=row, sample_id=row)


def credit(name: str, played: types.Rollout, values_PGT: jax.Array | None = None,
           **returns) -> jax.Array:
  """Advantages of an estimator of the catalogue, [P,G,T].

  Args:
    name: of the catalogue.
    played: from `rollout`.
    values_PGT: value before each token, for those that read one.
    **returns: arguments of the return that replace those of the catalogue; may be traced.
  """
  chosen = catalogue.method(name, layout(played.mask.shape[-1]), **returns)
  return methods.credit(chosen, played, old_logp_PGT=types.stream(played.logp),
                        values_PGT=values_PGT).advantages_PGT
