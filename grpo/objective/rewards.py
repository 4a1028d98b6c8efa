"""Reward shaping: the slot `shape`, a tuple of functions applied in order before any credit.

A shaping function maps (rewards_PGT, logp_PGT, ref_logp_PGT, mask_PGT) to rewards_PGT. Rewards live
on trained tokens only: `method.credit` drops what lies off the mask, before and after every
function. `logp` is that of the policy that is held fixed during the update (the `old` one), and
`ref_logp` is None in a run without a reference. Rewards are data: nothing here carries a gradient.
"""

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.objective import kl as kl_lib

__all__ = ['kl_in_reward', 'overlong', 'scale', 'clip', 'at_end', 'placebo']


def kl_in_reward(rewards_PGT: jax.Array, logp_PGT: jax.Array, ref_logp_PGT: jax.Array | None,
                 mask_PGT: jax.Array, *, coef: float, kind: str = 'k1') -> jax.Array:
  """Charges each token for leaving the reference: r_t - coef * kl_t.

  Ouyang et al. 2022, arXiv:2203.02155, eq. 2; Ahmadian et al. 2024, arXiv:2402.14740 (RLOO).
  k1, x = logp - ref_logp in nats, gives the gradient of KL(policy||ref) once a return adds it up
  over the later tokens of the row (arXiv:2510.01555). Constant for the gradient. If the returns
  are divided by a standard deviation afterwards, so is `coef`.

  Args:
    rewards_PGT: rewards.
    logp_PGT: log-probabilities under the policy that is held fixed.
    ref_logp_PGT: log-probabilities under the reference.
    mask_PGT: trained tokens; no other token is charged.
    coef: reward units per nat.
    kind: 'k1', 'k2' or 'k3', see `kl.py`.
  """
  if ref_logp_PGT is None:
    raise ValueError('rewards.kl_in_reward: needs log-probabilities of a reference, got None')
  kinds = {'k1': kl_lib.k1, 'k2': kl_lib.k2, 'k3': kl_lib.k3}
  if kind not in kinds:
    raise ValueError(f'rewards.kl_in_reward: kind={kind!r}; allowed: {sorted(kinds)}')
  logp_PGT = masked.clean(logp_PGT, mask_PGT)
  ref_logp_PGT = masked.clean(ref_logp_PGT, mask_PGT)
  kl_PGT = kinds[kind](logp_PGT, ref_logp_PGT, jnp.zeros_like(logp_PGT))
  return rewards_PGT - jax.lax.stop_gradient(coef * masked.clean(kl_PGT, mask_PGT))


def overlong(rewards_PGT: jax.Array, logp_PGT: jax.Array, ref_logp_PGT: jax.Array | None,
             mask_PGT: jax.Array, *, max_length: int, cache: float | None = None) -> jax.Array:
  """DAPO's soft punishment of long answers, added on the last trained token.

  0 up to max_length - cache trained tokens, then ((max_length - cache) - length) / cache, and -1
  above max_length. Yu et al. 2025, arXiv:2503.14476, eq. 13; the default cache is a fifth of
  max_length, as there (4096 of 20480). It gives spread to a group whose answers are all wrong, so
  `filters.informative` has to say on which number it looks.
  """
  del logp_PGT, ref_logp_PGT
  cache = max_length / 5 if cache is None else cache
  mask_PGT = jnp.asarray(mask_PGT, bool)
  length_PG1 = masked.count(mask_PGT, axis=2, keepdims=True, dtype=rewards_PGT.dtype)
  penalty_PG1 = jnp.clip((max_length - cache - length_PG1) / cache, -1.0, 0.0)
  index_PGT = jax.lax.broadcasted_iota(jnp.int32, mask_PGT.shape, 2)
  last_PGT = index_PGT == masked.last_index(mask_PGT)[..., None]
  return rewards_PGT + jnp.where(last_PGT, penalty_PG1, 0.0)


def scale(rewards_PGT: jax.Array, logp_PGT: jax.Array, ref_logp_PGT: jax.Array | None,
          mask_PGT: jax.Array, *, factor: float) -> jax.Array:
  """Multiplies every reward by `factor`: changes of unit, such as 0/1 to another scale.

  From 1e-6 to 1e6 in size: statistics of rewards are squared in float32.
  """
  del logp_PGT, ref_logp_PGT, mask_PGT
  return rewards_PGT * factor


def clip(rewards_PGT: jax.Array, logp_PGT: jax.Array, ref_logp_PGT: jax.Array | None,
         mask_PGT: jax.Array, *, low: float, high: float) -> jax.Array:
  """Clips the reward of each token to [low, high]. Not the episode's total."""
  del logp_PGT, ref_logp_PGT
  return jnp.where(mask_PGT, jnp.clip(rewards_PGT, low, high), rewards_PGT)


def at_end(rewards_PGT: jax.Array, logp_PGT: jax.Array, ref_logp_PGT: jax.Array | None,
           mask_PGT: jax.Array, *, share: float = 1.0) -> jax.Array:
  """Withholds feedback: moves a share of every reward to the last trained token of its episode.

  r_t -> (1 - share) r_t, and share * sum_j r_j on the last one. What an episode earns stays the
  same, and so does the best policy without a discount; what is lost is which turn was paid. With
  share = 1 every return to go is the outcome, as in a task that pays once. An episode that is cut
  keeps what it earned until then; one without trained tokens earns nothing.
  """
  del logp_PGT, ref_logp_PGT
  mask_PGT = jnp.asarray(mask_PGT, bool)
  total_PG1 = masked.total(rewards_PGT, mask_PGT, axis=2, keepdims=True)
  index_PGT = jax.lax.broadcasted_iota(jnp.int32, mask_PGT.shape, 2)
  last_PGT = mask_PGT & (index_PGT == masked.last_index(mask_PGT)[..., None])
  kept_PGT = (1.0 - share) * masked.clean(rewards_PGT, mask_PGT)
  return kept_PGT + share * jnp.where(last_PGT, total_PG1, 0.0)


def placebo(rewards_PGT: jax.Array, logp_PGT: jax.Array, ref_logp_PGT: jax.Array | None,
            mask_PGT: jax.Array, *, share: float = 0.5) -> jax.Array:
  """Replaces what an episode earned by a coin: 1 with probability `share`, else 0, at its end.

  The placebo arm of a comparison: what it gains was not learned from the reward. The coin is a hash
  of the bits of all log-probs of the episode, so it needs no key, is the same on any number of
  devices, and falls anew once the policy has moved; equal episodes of one batch get equal coins.
  Success is still counted from what the task says. An episode without trained tokens earns nothing.
  """
  del ref_logp_PGT
  mask_PGT = jnp.asarray(mask_PGT, bool)
  index_PGT = jax.lax.broadcasted_iota(jnp.int32, mask_PGT.shape, 2)
  bits_PGT = jax.lax.bitcast_convert_type(logp_PGT.astype(jnp.float32), jnp.uint32)
  place_PGT = index_PGT.astype(jnp.uint32) * jnp.uint32(0x9E3779B9)
  mixed_PGT = jnp.where(mask_PGT, _mix(bits_PGT ^ _mix(place_PGT)), jnp.uint32(0))
  word_PG1 = _mix(jnp.sum(mixed_PGT, axis=2, keepdims=True, dtype=jnp.uint32))
  coin_PG1 = (word_PG1 >> 8).astype(jnp.float32) * 2.0**-24 < share
  last_PGT = mask_PGT & (index_PGT == masked.last_index(mask_PGT)[..., None])
  return jnp.where(last_PGT & coin_PG1, 1.0, 0.0).astype(rewards_PGT.dtype)


def _mix(x):
  """A finaliser of 32-bit words: every input bit moves half of the output bits (MurmurHash3)."""
  x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
  x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
  return x ^ (x >> 16)
