"""Which rows are trained on: the slot `filter`, a tuple; a row stays if all of them keep it.

A function maps Facts to keep_PG. A filter takes rows out of the loss and out of its divisor. It
does not move the statistics of a group: advantages are computed before, from every sampled row.
The critic, where there is one, learns from every row. With `sample.over` above 1 the same filters
also choose which of the sampled groups fill the batch, see rollout/refill.py.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from grpo import masked
from grpo import types
from grpo.objective import advantages

__all__ = ['everything', 'informative', 'uncertain', 'pass_rate', 'fresh', 'complete']


@types.pytree
class Facts:
  """What is known of each sampled row. Reward sums are over trained tokens."""
  reward_PG: jax.Array      # f32; the task's reward
  shaped_PG: jax.Array      # f32; after shaping, as the advantages see it
  success_PG: jax.Array     # f32; 1 solved, 0 not
  lengths_PG: jax.Array     # int32; trained tokens
  truncated_PG: jax.Array   # bool
  version_PG: jax.Array     # int32; parameter version that sampled the row
  now: jax.Array            # int32 []; parameter version that is trained
  baseline_PG: jax.Array | None = None   # f32; what is subtracted as a baseline, if one is kept
  pace: jax.Array | None = None   # f32 []; time that passes in a step, where durations are random


def seen(rollout: types.Rollout, now) -> Facts:
  """Facts of episodes as they were sampled: no shaping, no baseline."""
  mask_PGT = types.stream(rollout.mask)
  reward_PG = jnp.sum(masked.clean(types.stream(rollout.rewards), mask_PGT), axis=2)
  return Facts(
      reward_PG=reward_PG, shaped_PG=reward_PG, success_PG=rollout.success,
      lengths_PG=jnp.sum(mask_PGT, axis=2, dtype=jnp.int32), truncated_PG=rollout.truncated,
      version_PG=rollout.version, now=jnp.asarray(now))


def combine(slots: tuple[Callable, ...], facts: Facts) -> jax.Array:
  """Rows [P,G] that have a trained token and that every filter keeps."""
  keep_PG = facts.lengths_PG > 0
  for keeps in slots:
    keep_PG = keep_PG & keeps(facts)
  return keep_PG


def everything(facts: Facts) -> jax.Array:
  """Keeps all rows, flat groups too: they stay in the divisor and under any KL term."""
  return jnp.ones_like(facts.lengths_PG, bool)


def informative(facts: Facts, *, by: str = 'reward', tol: float = 1e-5) -> jax.Array:
  """Drops groups without spread: DAPO's dynamic sampling. `sample.over` fills their places.

  Yu et al. 2025, arXiv:2503.14476, eq. 11: some samples of a group are right and some are not
  (by='success'). The policy gradient of the others is 0 anyway; dropping them takes their tokens
  out of the divisor and out of the KL term. Without over-sampling the batch gets smaller.

  Args:
    facts: of the batch.
    by: the number that must differ inside a group: 'reward', 'success', or 'shaped'. With a length
      penalty a group whose answers are all wrong has spread in 'shaped' and stays.
    tol: see `advantages.is_flat`.
  """
  numbers = dict(reward=facts.reward_PG, success=facts.success_PG, shaped=facts.shaped_PG)
  if by not in numbers:
    raise ValueError(f'filters.informative: by={by!r}; allowed: {", ".join(numbers)}')
  valid_PG1 = (facts.lengths_PG > 0)[..., None]
  flat_P11 = advantages.is_flat(numbers[by][..., None], valid_PG1, tol=tol)
  return jnp.broadcast_to(~flat_P11[..., 0], facts.lengths_PG.shape)


def uncertain(facts: Facts, *, fraction: float = 0.25, tol: float = 1e-5) -> jax.Array:
  """Keeps the share `fraction` of prompts whose rewards have the largest std: StarPO-S.

  Wang et al. 2025, arXiv:2504.20073 (RAGEN), section 3.3. At least one prompt is asked for; those
  without spread are never kept, also when too few others are left. Of prompts with equal std the
  first are kept. `informative` asks for any spread; this one is relative to the batch.
  """
  valid_PG = facts.lengths_PG > 0
  prompts = valid_PG.shape[0]
  std_P = masked.std(facts.reward_PG, valid_PG, axis=1, ddof=0).astype(jnp.float32)
  varied_PG = informative(facts, tol=tol)
  # A float that is not negative orders like its bits. Halving an integer range asks for sums over
  # prompts only, which keeps prompts split over devices, and makes the cut exact.
  bits_P = jax.lax.bitcast_convert_type(jnp.where(varied_PG[:, 0], std_P, 0.0), jnp.int32)
  wanted = jnp.maximum(1, jnp.floor(fraction * prompts + 1e-6)).astype(jnp.int32)
  cut = _largest(lambda x: jnp.sum(bits_P >= x) >= wanted, 31)
  tied_P = bits_P == cut
  left = wanted - jnp.sum(bits_P > cut)
  index_P = jax.lax.broadcasted_iota(jnp.int32, bits_P.shape, 0)
  end = _largest(lambda x: jnp.sum(tied_P & (index_P < x)) <= left, prompts.bit_length())
  keep_P = (bits_P > cut) | (tied_P & (index_P < end))
  return varied_PG & keep_P[:, None]


def _largest(holds, bits):
  """Largest number of so many bits for which `holds` is true; it is for 0, and never again."""
  def step(i, x):
    more = x + (jnp.int32(1) << (bits - 1 - i))
    return jnp.where(holds(more), more, x)

  return jax.lax.fori_loop(0, bits, step, jnp.int32(0))


def pass_rate(facts: Facts, *, low: float = 0.2, high: float = 0.8) -> jax.Array:
  """Keeps groups of which a share in [low, high] is solved: a curriculum by difficulty.

  It looks at the very samples that would be trained on: what remains of a prompt is a biased sample
  of it. Without `sample.over` the batch gets smaller.
  """
  rate_P1 = masked.mean(facts.success_PG, facts.lengths_PG > 0, axis=1, keepdims=True)
  return jnp.broadcast_to((rate_P1 >= low) & (rate_P1 <= high), facts.lengths_PG.shape)


def fresh(facts: Facts, *, max_lag: int) -> jax.Array:
  """Drops rows sampled more than `max_lag` parameter versions ago. GLM-5, arXiv:2602.15763."""
  return facts.now - facts.version_PG <= max_lag


def complete(facts: Facts) -> jax.Array:
  """Drops rows that a limit cut off: overlong filtering. arXiv:2503.14476, section 3.4."""
  return ~facts.truncated_PG
