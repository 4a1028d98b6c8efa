"""Returns of chunks: the slot `returns`.

A function maps (rewards_PGK, valid_PGK, context) to returns_PGK. Chunks without trained tokens are
invalid: every recursion steps over them, without discount and without reset, and their return is 0.
A discount counts chunks (tokens when a token is a chunk, turns when a turn is one).

`bootstrap` says what stands for the future that was not seen:
  'none'    nothing. A trajectory cut by a limit is treated as ended.
  'critic'  the critic's value: before chunk k + n + 1 for a look-ahead, and `context.bootstrap_PG`
            after the last token of a truncated trajectory. One that terminated gets 0.
  'repeat'  for a truncated trajectory the value before its last chunk, as in EGAE (Truncated PPO,
            arXiv:2506.15050, section 3.1).
  'group'   the group's mean return-to-go at the same chunk index (look-ahead only).
"""

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.objective.context import Context

__all__ = ['outcome', 'look_ahead', 'reward_to_go', 'lambda_return', 'adaptive_lambda_return']


def outcome(rewards_PGK: jax.Array, valid_PGK: jax.Array, context: Context) -> jax.Array:
  """Total reward of the trajectory, on each of its chunks: R_k = sum_j rho_j."""
  del context
  total_PG1 = masked.total(rewards_PGK, valid_PGK, axis=2, keepdims=True)
  return jnp.where(valid_PGK, total_PG1, 0.0)


def look_ahead(rewards_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
               n: int | None, discount: float = 1.0, bootstrap: str = 'none') -> jax.Array:
  """Horizon-chunked return: R_k = sum_{j<=n} discount^j rho_{k+j} + discount^{n+1} b_{k+n+1}.

  Indices step over invalid chunks. n = 0 is the chunk's own reward, n = None the reward-to-go.
  b is 0, the critic's value, or the group's mean return-to-go at that chunk index over the samples
  that reach it, this one included; past the last chunk it is what the module docstring says of
  truncated trajectories. Sutton and Barto 2018, eq. 7.1, over chunks instead of steps.
  """
  if n is None:
    if bootstrap not in ('none', 'critic'):
      raise ValueError(f"returns.look_ahead: bootstrap={bootstrap!r} with n=None; a return to the "
                       "end needs 'none' or 'critic'")
    return reward_to_go(rewards_PGK, valid_PGK, context, discount=discount, bootstrap=bootstrap)
  rewards_PGK = masked.clean(rewards_PGK, valid_PGK)
  if bootstrap == 'none':
    after_PGK = jnp.zeros_like(rewards_PGK)
    end_PG1 = jnp.zeros_like(rewards_PGK[..., :1])
  elif bootstrap == 'critic':
    after_PGK = masked.clean(_values(context, 'look_ahead'), valid_PGK)
    end_PG1 = _end(rewards_PGK, valid_PGK, context, 'critic', 'look_ahead')
  elif bootstrap == 'group':
    to_go_PGK = reward_to_go(rewards_PGK, valid_PGK, context, discount=discount)
    mean_P1K = masked.mean(to_go_PGK, valid_PGK, axis=1, keepdims=True)
    after_PGK = jnp.where(valid_PGK, mean_P1K, 0.0)
    end_PG1 = jnp.zeros_like(rewards_PGK[..., :1])
  else:
    raise ValueError(f"returns.look_ahead: bootstrap={bootstrap!r}; allowed: none, critic, group")
  next_PGK = _next_index(valid_PGK)

  def step(_, x_PGK):
    return rewards_PGK + discount * _at(x_PGK, next_PGK, end_PG1)

  returns_PGK = jax.lax.fori_loop(0, n + 1, step, after_PGK)
  return masked.clean(returns_PGK, valid_PGK)


def reward_to_go(rewards_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                 discount: float = 1.0, bootstrap: str = 'none') -> jax.Array:
  """Discounted sum of this and later rewards: R_k = rho_k + discount * R_next(k).

  Past the end: 0, or the critic's value for truncated trajectories ('critic', 'repeat').
  """
  rewards_PGK = masked.clean(rewards_PGK, valid_PGK)
  end_PG1 = _end(rewards_PGK, valid_PGK, context, bootstrap, 'reward_to_go')
  weight_PGK = jnp.where(valid_PGK, discount, jnp.ones_like(rewards_PGK))
  return masked.clean(_backward(weight_PGK, rewards_PGK, end_PG1), valid_PGK)


def lambda_return(rewards_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *, lam: float,
                  discount: float = 1.0, bootstrap: str = 'critic') -> jax.Array:
  """GAE advantage plus value: R_k = V_k + A_k, A_k = delta_k + discount * lam * A_next(k).

  delta_k = rho_k + discount * V_next(k) - V_k. Schulman et al. 2016, arXiv:1506.02438, eq. 16;
  observation tokens stepped over as in arXiv:2607.07508 (SAO). Subtract the values
  (`advantages.critic`) to get the GAE advantage; with lam = 1 this is the Monte-Carlo return.
  """
  return _lambda_return(rewards_PGK, valid_PGK, context, lam, discount, bootstrap)


def adaptive_lambda_return(rewards_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                           alpha: float, discount: float = 1.0,
                           bootstrap: str = 'critic') -> jax.Array:
  """`lambda_return` with lam = max(0, 1 - 1 / (alpha * l)), l = valid chunks of the trajectory.

  VAPO, arXiv:2504.05118, section 4.2 (alpha 0.05); SAO, arXiv:2607.07508 (alpha 1.5). Over a whole
  trajectory lam^l tends to exp(-1 / alpha). The papers do not say whether observations count in l;
  here only what gets credit does: trained tokens when a token is a chunk. A short trajectory
  (alpha * l < 1) would get a negative lam and gets 0.
  """
  length_PG1 = masked.count(valid_PGK, axis=2, keepdims=True, dtype=rewards_PGK.dtype)
  lam_PG1 = jnp.maximum(0.0, 1.0 - masked.divide(jnp.ones_like(length_PG1), alpha * length_PG1))
  return _lambda_return(rewards_PGK, valid_PGK, context, lam_PG1, discount, bootstrap)


def _lambda_return(rewards_PGK, valid_PGK, context, lam, discount, bootstrap):
  values_PGK = masked.clean(_values(context, 'lambda_return'), valid_PGK)
  rewards_PGK = masked.clean(rewards_PGK, valid_PGK)
  end_PG1 = _end(rewards_PGK, valid_PGK, context, bootstrap, 'lambda_return')
  next_PGK = _at(values_PGK, _next_index(valid_PGK), end_PG1)
  delta_PGK = masked.clean(rewards_PGK + discount * next_PGK - values_PGK, valid_PGK)
  weight_PGK = jnp.where(valid_PGK, discount * lam, jnp.ones_like(rewards_PGK))
  gae_PGK = _backward(weight_PGK, delta_PGK, jnp.zeros_like(end_PG1))
  return masked.clean(gae_PGK + values_PGK, valid_PGK)


def _backward(weight_PGK, x_PGK, end_PG1):
  """y_k = x_k + weight_k * y_{k+1}, with y_K = end: one associative scan from the right."""
  def combine(late, early):
    return late[0] * early[0], early[1] + early[0] * late[1]

  weight_PGK, y_PGK = jax.lax.associative_scan(combine, (weight_PGK, x_PGK), axis=2, reverse=True)
  return y_PGK + weight_PGK * end_PG1


def _next_index(valid_PGK):
  """Index of the next valid chunk after each chunk; K where there is none."""
  count = valid_PGK.shape[2]
  index_PGK = jax.lax.broadcasted_iota(jnp.int32, valid_PGK.shape, 2)
  here_PGK = jax.lax.cummin(jnp.where(valid_PGK, index_PGK, count), axis=2, reverse=True)
  return jnp.concatenate([here_PGK[..., 1:], jnp.full_like(here_PGK[..., :1], count)], axis=2)


def _at(x_PGK, index_PGK, end_PG1):
  """x at the index, and `end` at index K."""
  return jnp.take_along_axis(jnp.concatenate([x_PGK, end_PG1], axis=2), index_PGK, axis=2)


def _values(context, name):
  if context.values_PGK is None:
    raise ValueError(f'returns.{name}: needs the values of a critic, and this run has none')
  return context.values_PGK


def _end(rewards_PGK, valid_PGK, context, bootstrap, name):
  """What stands for the future after the last chunk, [P,G,1]."""
  zero_PG1 = jnp.zeros_like(rewards_PGK[..., :1])
  if bootstrap == 'none':
    return zero_PG1
  if bootstrap == 'critic':
    if context.bootstrap_PG is None:
      raise ValueError(f"returns.{name}: bootstrap='critic' needs the critic's value after the "
                       "last token of truncated trajectories; without it use bootstrap='none'")
    last_PG1 = context.bootstrap_PG[..., None]
  elif bootstrap == 'repeat':
    at_PG1 = jnp.maximum(masked.last_index(valid_PGK), 0)[..., None]
    last_PG1 = jnp.take_along_axis(_values(context, name), at_PG1, axis=2)
  else:
    raise ValueError(f'returns.{name}: bootstrap={bootstrap!r}; allowed: none, critic, repeat')
  return jnp.where(context.truncated_PG[..., None], last_PG1.astype(zero_PG1.dtype), zero_PG1)
