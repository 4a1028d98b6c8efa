"""Step advantages among steps that start alike: more of the slot `advantages`.

A chunk is compared with all chunks of the prompt's group, of any sample and at any time, that start
in the same state: `context.state_id_PGK`, the task's anchor key. It stands for the papers' "same
observation"; where a task hides something, the key knows it and is finer than an observation.
Groups are found by sorting, so memory is linear in G * K.
"""

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.objective import advantages
from grpo.objective.context import Context

__all__ = ['gigpo', 'hgpo']

NORMALISE = ('mean', 'mean_std')


def gigpo(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *, omega: float = 1.0,
          normalise: str = 'mean', eps: float = 1e-6, tol: float = 1e-5) -> jax.Array:
  """Episode advantage plus omega times step advantage, [P,G,K]: A = A_E + omega A_S.

  A_E = (R - mean_g R) / F over the samples of the group, R the total reward of the trajectory;
  A_S = (Q_k - mean Q) / F over the chunks that start in the state of chunk k, Q the return given:
  `reward_to_go` with discount 0.95. F is 1 for 'mean', and std + eps (divisor n - 1) for
  'mean_std'. Feng et al. 2025, arXiv:2505.10978 (GiGPO), eq. 3 to 8. A state that is visited once
  gets A_S = 0, and a flat group gets 0. Statistics of A_E are over trajectories: none weighs more
  for being long.
  """
  _check(normalise, 'gigpo')
  total_PG1 = masked.total(_rewards(context, 'gigpo'), valid_PGK, axis=2, keepdims=True)
  member_PG1 = jnp.any(valid_PGK, axis=2, keepdims=True)
  episode = advantages.group_center if normalise == 'mean' else advantages.group_zscore
  extra = {} if normalise == 'mean' else dict(eps=eps)
  episode_PG1 = episode(total_PG1, member_PG1, context, tol=tol, **extra)
  label_PGK = _labels(context.state_id_PGK)
  step_PGK = _among(returns_PGK, valid_PGK, label_PGK, normalise, ddof=1, eps=eps, tol=tol)
  return masked.clean(episode_PG1 + omega * step_PGK, valid_PGK)


def hgpo(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *, depth: int = 2,
         alpha: float = 1.0, normalise: str = 'mean', eps: float = 1e-6,
         tol: float = 1e-5) -> jax.Array:
  """Step advantage over a hierarchy of groups, keyed by ever longer histories, [P,G,K].

  a_h = (Q - mean Q) / F among chunks whose last h + 1 states agree, h = 0..depth, as far as the
  history reaches; A = sum_h w_h a_h, w_h = (h + 1)^alpha / (sum (h + 1)^alpha + 1e-6) over the
  levels where a_h is not 0. F is 1 for 'mean', and std + eps (divisor n) for 'mean_std'. HGPO
  (ICLR 2026), as its published recipe for verl-agent computes it; GiGPO, arXiv:2505.10978, is the
  idea at depth 0. Returns: `reward_to_go` with discount 0.95.
  """
  _check(normalise, 'hgpo')
  state_PGK = _labels(context.state_id_PGK)
  size = jnp.uint32(returns_PGK.shape[1] * returns_PGK.shape[2])
  back_PGK = _previous(valid_PGK)
  at_PGK = jax.lax.broadcasted_iota(jnp.int32, valid_PGK.shape, 2)
  label_PGK, reach_PGK = state_PGK, valid_PGK
  total_PGK = weight_PGK = jnp.zeros_like(returns_PGK)
  for h in range(depth + 1):
    if h:
      at_PGK = jnp.where(at_PGK < 0, -1, _at(back_PGK, at_PGK))
      reach_PGK = reach_PGK & (at_PGK >= 0)
      # Two labels below N make one number below N^2: histories are compared exactly.
      label_PGK = _labels(label_PGK.astype(jnp.uint32) * size
                          + _at(state_PGK, at_PGK).astype(jnp.uint32))
    a_PGK = _among(returns_PGK, reach_PGK, label_PGK, normalise, ddof=0, eps=eps, tol=tol)
    w_PGK = jnp.where(a_PGK != 0, jnp.asarray(float(h + 1), a_PGK.dtype) ** alpha, 0.0)
    total_PGK, weight_PGK = total_PGK + w_PGK * a_PGK, weight_PGK + w_PGK
  return masked.clean(total_PGK / (weight_PGK + 1e-6), valid_PGK)


def _check(normalise, name):
  if normalise not in NORMALISE:
    raise ValueError(f'advantages.{name}: normalise={normalise!r}; allowed: '
                     f'{", ".join(NORMALISE)}')


def _rewards(context, name):
  if context.rewards_PGK is None:
    raise ValueError(f'advantages.{name}: needs the rewards of chunks in the context')
  return context.rewards_PGK


def _flat(x_PGK):
  return x_PGK.reshape(x_PGK.shape[0], -1)


def _labels(key_PGK):
  """Numbers 0, 1, ... of the distinct keys of each prompt; int32 [P,G,K], below G * K."""
  def label(key_N):
    order_N = jnp.argsort(key_N)
    sorted_N = key_N[order_N]
    new_N = jnp.concatenate([jnp.zeros_like(sorted_N[:1], bool), sorted_N[1:] != sorted_N[:-1]])
    return jnp.cumsum(new_N.astype(jnp.int32))[jnp.argsort(order_N)]

  return jax.vmap(label)(_flat(key_PGK)).reshape(key_PGK.shape)


def _among(x_PGK, valid_PGK, label_PGK, normalise, *, ddof, eps, tol):
  """x minus the mean over its label, divided by the std where asked; 0 for flat labels.

  What is the mean but for rounding is 0 exactly: `hgpo` asks which are.
  """
  def centre(x_N, valid_N, label_N):
    sums = lambda y_N: jax.ops.segment_sum(y_N, label_N, num_segments=x_N.shape[0])[label_N]
    high = lambda y_N: jax.ops.segment_max(y_N, label_N, num_segments=x_N.shape[0])[label_N]
    x_N = masked.clean(x_N, valid_N)
    count_N = sums(valid_N.astype(x_N.dtype))
    centred_N = masked.clean(x_N - masked.divide(sums(x_N), count_N), valid_N)
    spread_N = (high(masked.clean(x_N, valid_N, -jnp.inf))
                + high(masked.clean(-x_N, valid_N, -jnp.inf)))
    least_N = tol * high(jnp.abs(x_N))
    flat_N = ~valid_N | (spread_N <= least_N)
    centred_N = jnp.where(jnp.abs(centred_N) <= least_N, 0.0, centred_N)
    if normalise == 'mean':
      return jnp.where(flat_N, 0.0, centred_N)
    var_N = masked.divide(sums(jnp.square(centred_N)), jnp.maximum(count_N - ddof, 0))
    flat_N = flat_N | (var_N == 0)
    return jnp.where(flat_N, 0.0, centred_N / (jnp.sqrt(jnp.where(flat_N, 1.0, var_N)) + eps))

  out = jax.vmap(centre)(_flat(x_PGK), _flat(valid_PGK), _flat(label_PGK))
  return out.reshape(x_PGK.shape)


def _previous(valid_PGK):
  """Index of the valid chunk before each chunk; -1 where there is none."""
  index_PGK = jax.lax.broadcasted_iota(jnp.int32, valid_PGK.shape, 2)
  here_PGK = jax.lax.cummax(jnp.where(valid_PGK, index_PGK, -1), axis=2)
  return jnp.concatenate([jnp.full_like(here_PGK[..., :1], -1), here_PGK[..., :-1]], axis=2)


def _at(x_PGK, index_PGK):
  return jnp.take_along_axis(x_PGK, jnp.maximum(index_PGK, 0), axis=2)
