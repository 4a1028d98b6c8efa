"""Returns that know of turns, windows and potentials: more of the slot `returns`.

Each function keeps to the rules of `returns.py`, and is one or two calls of its recursions: with a
discount of 0 on the last chunk of a stretch, `lambda_return` starts anew there. Stretches are turns
or context windows; chunks are tokens when the paper's are.
"""

import dataclasses

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.objective import returns
from grpo.objective.context import Context

__all__ = ['bilevel_return', 'adaptive_segment_return', 'cross_segment_return',
           'adaptive_cross_segment_return', 'potential_look_ahead', 'information_gain']

LENGTHS = ('rollout', 'segment')


def bilevel_return(rewards_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                   turn_lam: float, lam: float, turn_discount: float = 1.0, discount: float = 1.0,
                   bootstrap: str = 'none') -> jax.Array:
  """Bi-level GAE plus value, [P,G,K]: GAE over turns, then over the tokens of each turn.

  Over the last tokens e of turns, r the turn's total reward:
    B_e = r_e + turn_discount V_e' - V_e + turn_discount turn_lam B_e'
  Inside a turn, usual GAE with reward B_e + V_e on its last token, and nothing behind it. So the
  last token gets B_e exactly. Wang et al. 2025, arXiv:2510.16907 (VAGEN), section 3; RAGEN,
  arXiv:2504.20073. Ends of turns are those of the turns, not the tokens with a reward, as a turn
  that earns 0 has an end too; a reward inside a turn counts as earned at its end. Equal to
  `lambda_return` when all four numbers are 1; not with equal discounts below 1, as one counts turns
  and the other tokens.
  """
  end_PGK = _ends(context.turn_PGK, valid_PGK)
  earned_PGK = _running_total(masked.clean(rewards_PGK, valid_PGK),
                              _starts(context.turn_PGK, valid_PGK))
  high_PGK = returns.lambda_return(earned_PGK, end_PGK, context, lam=turn_lam,
                                   discount=turn_discount, bootstrap=bootstrap)
  within_PGK = jnp.where(end_PGK, 0.0, jnp.asarray(discount, rewards_PGK.dtype))
  return returns.lambda_return(high_PGK, valid_PGK, context, lam=lam, discount=within_PGK,
                               bootstrap='none')


def adaptive_segment_return(rewards_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                            alpha: float, discount: float = 1.0) -> jax.Array:
  """GAE inside each window plus value, [P,G,K]: windows as samples, nothing decays between them.

  A_{s,t} = A^loc_{s,t}, see `cross_segment_return`, with lam = max(0, 1 - 1 / (alpha * l)) and l
  the valid chunks of the window. The arm without cross-trajectory GAE of CompactionRL,
  arXiv:2607.05378: the reward stands at the end of every window, and each window is on its own.
  """
  lam_PGK = _adaptive(valid_PGK, context, alpha, 'segment', rewards_PGK.dtype)
  return masked.clean(_local(rewards_PGK, valid_PGK, context, lam_PGK, discount), valid_PGK)


def cross_segment_return(rewards_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                         lam: float, discount: float = 1.0) -> jax.Array:
  """Cross-trajectory GAE plus value, [P,G,K]: credit of a trajectory that was cut into windows.

  A_{s,t} = (discount lam)^{N_s} A^loc_{s,t}: A^loc is GAE inside window s whose end earns what all
  later windows earn, N_s the number of valid chunks in later windows. CompactionRL,
  arXiv:2607.05378. With a reward on the last token only, this is the paper's copy of it at the end
  of every window. One window: `lambda_return`. Values of 0: GAE over the joined stream. Other
  values: the baseline of an early window decays along with its return, unlike in joined GAE.
  """
  lam_PGK = jnp.broadcast_to(jnp.asarray(lam, rewards_PGK.dtype), rewards_PGK.shape)
  return _cross(rewards_PGK, valid_PGK, context, lam_PGK, discount)


def adaptive_cross_segment_return(rewards_PGK: jax.Array, valid_PGK: jax.Array, context: Context,
                                  *, alpha: float, length: str = 'rollout',
                                  discount: float = 1.0) -> jax.Array:
  """`cross_segment_return` with lam = max(0, 1 - 1 / (alpha * l)).

  CompactionRL, arXiv:2607.05378 (alpha 1.5). The paper does not say what l counts. 'rollout': the
  valid chunks of the trajectory, so that the decay is at least about exp(-1 / alpha). 'segment':
  those of the window, which leaves little for early windows.
  """
  if length not in LENGTHS:
    raise ValueError(f'returns.adaptive_cross_segment_return: length={length!r}; allowed: '
                     f'{", ".join(LENGTHS)}')
  lam_PGK = _adaptive(valid_PGK, context, alpha, length, rewards_PGK.dtype)
  return _cross(rewards_PGK, valid_PGK, context, lam_PGK, discount)


def potential_look_ahead(rewards_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                         n: int | None, discount: float = 1.0) -> jax.Array:
  """`look_ahead` of rewards that are shaped by the task's potential, [P,G,K].

  Shaped reward rho_k + discount Phi_{k+1} - Phi_k, with Phi = 0 at the end, at a truncation too:
  else the best policy would move. The sum telescopes, so this is a look-ahead with bootstrap Phi,
  minus Phi_k; n = None gives the return-to-go minus Phi_k. Ng, Harada and Russell 1999, theorem 1.
  Samples of a group start alike: under a group baseline Phi does nothing to whole trajectories, and
  acts as a value baseline on turns. Here chunks with different states share an index.
  """
  if context.potential_PGK is None:
    raise ValueError('returns.potential_look_ahead: this task has no potential')
  phi_PGK = masked.clean(context.potential_PGK, valid_PGK).astype(rewards_PGK.dtype)
  seen = dataclasses.replace(context, values_PGK=phi_PGK,
                             bootstrap_PG=jnp.zeros_like(phi_PGK[..., 0]))
  returns_PGK = returns.look_ahead(rewards_PGK, valid_PGK, seen, n=n, discount=discount,
                                   bootstrap='none' if n is None else 'critic')
  return returns_PGK - phi_PGK


def information_gain(rewards_PGK: jax.Array, valid_PGK: jax.Array,
                     context: Context) -> jax.Array:
  """Reward of a turn by what it told, [P,G,K]: rho_k + g_{k+1} - g_k; the last turn rho_K alone.

  g_k is the probability that the policy would give the right answer at the start of turn k, if it
  answered then. Gains are data, under the parameters of the step. IGPO, arXiv:2510.14967,
  section 3, where inner turns earn nothing else. An answer of one token, as here, has no
  length to normalise by.
  """
  if context.answer_PGK is None:
    raise ValueError('returns.information_gain: this task has no answer')
  g_PGK = masked.clean(context.answer_PGK, valid_PGK).astype(rewards_PGK.dtype)
  seen = dataclasses.replace(context, values_PGK=g_PGK, bootstrap_PG=jnp.zeros_like(g_PGK[..., 0]))
  next_PGK = returns.look_ahead(rewards_PGK, valid_PGK, seen, n=0, bootstrap='critic')
  index_PGK = jax.lax.broadcasted_iota(jnp.int32, valid_PGK.shape, 2)
  last_PGK = index_PGK == masked.last_index(valid_PGK)[..., None]
  return next_PGK - jnp.where(last_PGK, 0.0, g_PGK)


def _adaptive(valid_PGK, context, alpha, length, dtype):
  """lam of each chunk, by the number of valid chunks of its trajectory or window."""
  here_PGK, later_PGK = _counts(context.segment_PGK, valid_PGK)
  total_PG1 = masked.count(valid_PGK, axis=2, keepdims=True, dtype=dtype)
  count = total_PG1 if length == 'rollout' else (here_PGK - later_PGK).astype(dtype)
  lam = jnp.maximum(0.0, 1.0 - masked.divide(jnp.ones_like(count), alpha * count))
  return jnp.broadcast_to(lam, valid_PGK.shape)


def _local(rewards_PGK, valid_PGK, context, lam_PGK, discount):
  """GAE plus value inside windows; the end of each earns what all later ones earn."""
  end_PGK = _ends(context.segment_PGK, valid_PGK)
  from_here_PGK = masked.suffix_sum(rewards_PGK, valid_PGK, axis=2)
  after_PGK = jnp.concatenate([from_here_PGK[..., 1:], jnp.zeros_like(from_here_PGK[..., :1])],
                              axis=2)
  earned_PGK = masked.clean(rewards_PGK, valid_PGK) + masked.clean(after_PGK, end_PGK)
  within_PGK = jnp.where(end_PGK, 0.0, jnp.asarray(discount, rewards_PGK.dtype))
  return returns.lambda_return(earned_PGK, valid_PGK, context, lam=lam_PGK, discount=within_PGK,
                               bootstrap='none')


def _cross(rewards_PGK, valid_PGK, context, lam_PGK, discount):
  local_PGK = _local(rewards_PGK, valid_PGK, context, lam_PGK, discount)
  values_PGK = masked.clean(context.values_PGK, valid_PGK)
  _, later_PGK = _counts(context.segment_PGK, valid_PGK)
  decay_PGK = jnp.power(discount * lam_PGK, later_PGK.astype(lam_PGK.dtype))
  return masked.clean(values_PGK + decay_PGK * (local_PGK - values_PGK), valid_PGK)


def _ends(label_PGK, valid_PGK):
  """Valid chunks that no valid chunk of the same label follows. Labels never decrease."""
  top = jnp.iinfo(jnp.int32).max
  here_PGK = jax.lax.cummin(jnp.where(valid_PGK, label_PGK, top), axis=2, reverse=True)
  next_PGK = jnp.concatenate([here_PGK[..., 1:], jnp.full_like(here_PGK[..., :1], top)], axis=2)
  return valid_PGK & (next_PGK != label_PGK)


def _starts(label_PGK, valid_PGK):
  """Valid chunks that no valid chunk of the same label precedes."""
  seen_PGK = jax.lax.cummax(jnp.where(valid_PGK, label_PGK, -1), axis=2)
  last_PGK = jnp.concatenate([jnp.full_like(seen_PGK[..., :1], -1), seen_PGK[..., :-1]], axis=2)
  return valid_PGK & (last_PGK != label_PGK)


def _running_total(x_PGK, start_PGK):
  """Sum since the last start, this chunk included."""
  def combine(early, late):
    return early[0] * late[0], late[1] + late[0] * early[1]

  carry_PGK = jnp.where(start_PGK, 0.0, jnp.ones_like(x_PGK))
  return jax.lax.associative_scan(combine, (carry_PGK, x_PGK), axis=2)[1]


def _counts(label_PGK, valid_PGK):
  """Valid chunks from the start of this chunk's stretch on, and behind its end; int32 [P,G,K]."""
  left_PGK = jax.lax.cumsum(valid_PGK.astype(jnp.int32), axis=2, reverse=True)
  behind_PGK = jnp.where(_ends(label_PGK, valid_PGK), left_PGK - 1, 0)
  start_PGK = jnp.where(_starts(label_PGK, valid_PGK), left_PGK, jnp.iinfo(jnp.int32).max)
  # Both fall along the row: the end that comes next has the largest, the last start the smallest.
  return (jax.lax.cummin(start_PGK, axis=2),
          jax.lax.cummax(behind_PGK, axis=2, reverse=True))
