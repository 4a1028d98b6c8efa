"""Advantages of turns for agents: more of the slot `advantages`.

They read turn rewards, the entropies of turns or a critic besides a group. Chunks are turns.
"""

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.objective import advantages
from grpo.objective.context import Context

__all__ = ['mt_grpo', 'igpo', 'empg', 'mixed_baseline']


def mt_grpo(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *, coef: float = 1.0,
            eps: float = 1e-4, tol: float = 1e-5) -> jax.Array:
  """Turn rewards and outcome, normalised apart, [P,G,K]: A_k = A^O + coef sum_{k<=l<K} A^T_l.

  A^O is the z-score of the reward of the last turn over the group, A^T_l that of turn l's own
  return, per turn index; the last turn has A^O only. Zeng et al. 2025, arXiv:2505.11821 (MT-GRPO),
  section 3: two turns, a tool call and an answer; the sum is its extension to more. Give it each
  turn's own reward: `look_ahead` or `potential_look_ahead` with n = 0. Without turn rewards it is
  GRPO. An episode of one turn has no boundary and gets A^O.
  """
  if context.rewards_PGK is None:
    raise ValueError('advantages.mt_grpo: needs the rewards of chunks in the context')
  last_PGK = _last(valid_PGK)
  inner_PGK = valid_PGK & ~last_PGK
  turn_PGK = advantages.group_zscore(returns_PGK, inner_PGK, context, eps=eps, tol=tol)
  outcome_PG1 = masked.total(context.rewards_PGK, last_PGK, axis=2, keepdims=True)
  outcome_PG1 = advantages.group_zscore(outcome_PG1, jnp.any(valid_PGK, axis=2, keepdims=True),
                                        context, eps=eps, tol=tol)
  to_go_PGK = masked.suffix_sum(turn_PGK, inner_PGK, axis=2)
  return masked.clean(outcome_PG1 + coef * to_go_PGK, valid_PGK)


def igpo(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *, joint: str = 'joint',
         discount: float = 1.0, tol: float = 1e-5) -> jax.Array:
  """Normalised turn rewards, summed to the end, [P,G,K]: A_k = z_k + discount A_{k+1}.

  Turn rewards: the information gain p(answer | after turn k) - p(answer | before it) on all turns
  but the last, the outcome on the last. z = (x - mean) / (sqrt(var + 1e-8) + 1e-6), divisor n, over
  all turns of the group ('joint'), or over gains and outcomes apart ('separate'). arXiv:2510.14967
  (IGPO), section 3. Give it the rewards of returns `information_gain`. The code of the paper takes
  a gain of exactly 0 for no turn; here it is a number like others.
  """
  del context
  if joint not in ('joint', 'separate'):
    raise ValueError(f'advantages.igpo: joint={joint!r}; allowed: joint, separate')
  last_PGK = _last(valid_PGK)
  parts = (valid_PGK,) if joint == 'joint' else (last_PGK, valid_PGK & ~last_PGK)
  z_PGK = jnp.zeros_like(returns_PGK)
  for part_PGK in parts:
    mean_P11 = masked.mean(returns_PGK, part_PGK, axis=(1, 2), keepdims=True)
    var_P11 = masked.var(returns_PGK, part_PGK, axis=(1, 2), ddof=0, keepdims=True)
    flat_P11 = advantages.is_flat(returns_PGK, part_PGK, over='pooled', tol=tol)
    scaled_PGK = ((masked.clean(returns_PGK, part_PGK) - mean_P11)
                  / (jnp.sqrt(var_P11 + 1e-8) + 1e-6))
    z_PGK = z_PGK + masked.clean(jnp.where(flat_P11, 0.0, scaled_PGK), part_PGK)
  return _discounted(z_PGK, valid_PGK, discount)


def empg(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *, k: float = 1.0,
         k_next: float = 1.0, zeta: float = 0.1, over: str = 'index', eps: float = 0.0,
         tol: float = 1e-5) -> jax.Array:
  """Group z-scores, gated by the entropy of the turn, [P,G,K].

  With H the mean entropy of the turn's tokens in nats, h = (H - min) / (max - min) over the batch,
  g = exp(-k h) / mean exp(-k h) and f = exp(-k_next h):
    A'_k = A_k g(h_k) + zeta f(h_{k+1}), no bonus on the last turn;  result A' - mean_batch A'.
  Wang et al. 2025, arXiv:2509.09265 (EMPG), section 3. Constant for the gradient. The constants are
  ours: those of the paper could not be checked. With zeta above 0 a flat group is not at 0: its
  turns are ranked by how clear the next state is.
  """
  if context.entropy_PGK is None:
    raise ValueError('advantages.empg: needs the entropy of turns in the context')
  a_PGK = advantages.group_zscore(returns_PGK, valid_PGK, context, over=over, eps=eps, tol=tol)
  axes = (0, 1, 2)
  entropy_PGK = masked.clean(context.entropy_PGK, valid_PGK)
  low_111 = masked.low(entropy_PGK, valid_PGK, axis=axes, keepdims=True)
  spread_111 = masked.spread_range(entropy_PGK, valid_PGK, axis=axes, keepdims=True)
  h_PGK = masked.clean((entropy_PGK - low_111) / (spread_111 + 1e-8), valid_PGK)
  weight_PGK = jnp.exp(-k * h_PGK)
  gate_PGK = weight_PGK / jnp.maximum(
      masked.mean(weight_PGK, valid_PGK, axis=axes, keepdims=True), 1e-8)
  bonus_PGK = _next(jnp.exp(-k_next * h_PGK), valid_PGK)
  moved_PGK = a_PGK * gate_PGK + zeta * bonus_PGK
  mean_111 = masked.mean(moved_PGK, valid_PGK, axis=axes, keepdims=True)
  return jax.lax.stop_gradient(masked.clean(moved_PGK - mean_111, valid_PGK))


def mixed_baseline(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                   weight: float, over: str = 'index', tol: float = 1e-5) -> jax.Array:
  """Return minus a mean of two baselines, [P,G,K]: A = w (R - mean of others) + (1 - w) (R - V).

  No paper: it asks how much of a critic a group replaces. 1 is `leave_one_out`, 0 is `critic`; no
  baseline sees the sample's own return, so every weight leaves the gradient unbiased when R is a
  Monte-Carlo return.
  """
  group_PGK = advantages.leave_one_out(returns_PGK, valid_PGK, context, over=over, tol=tol)
  return weight * group_PGK + (1.0 - weight) * advantages.critic(returns_PGK, valid_PGK, context)


def _last(valid_PGK):
  """True on the last valid chunk of each row."""
  index_PGK = jax.lax.broadcasted_iota(jnp.int32, valid_PGK.shape, 2)
  return valid_PGK & (index_PGK == masked.last_index(valid_PGK)[..., None])


def _next(x_PGK, valid_PGK):
  """x of the next valid chunk; 0 on the last one and off `valid`."""
  def first(late, early):
    return late[0] | early[0], jnp.where(early[0], early[1], late[1])

  _, here_PGK = jax.lax.associative_scan(first, (valid_PGK, masked.clean(x_PGK, valid_PGK)),
                                         axis=2, reverse=True)
  after_PGK = jnp.concatenate([here_PGK[..., 1:], jnp.zeros_like(here_PGK[..., :1])], axis=2)
  return masked.clean(after_PGK, valid_PGK)


def _discounted(x_PGK, valid_PGK, discount):
  """y_k = x_k + discount * y_next(k) over valid chunks."""
  def combine(late, early):
    return late[0] * early[0], early[1] + early[0] * late[1]

  weight_PGK = jnp.where(valid_PGK, discount, jnp.ones_like(x_PGK))
  scan = jax.lax.associative_scan(combine, (weight_PGK, x_PGK), axis=2, reverse=True)
  return masked.clean(scan[1], valid_PGK)
