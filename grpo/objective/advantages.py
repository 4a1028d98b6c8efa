"""Advantages of chunks: the slot `advantages`.

A function maps (returns_PGK, valid_PGK, context) to advantages_PGK, 0 on invalid chunks. Group
statistics are taken inside a prompt's group and at one place, here: what happens to another prompt,
or to a row that a filter drops later, does not move them. `over` says over which numbers:

  'index'     the samples that reach a chunk index, for each index by itself
  'pooled'    all chunks of all samples of the group; long trajectories weigh more
  'sequence'  one number for each sample, the mean over its chunks

A group whose spread (max - min) is at most `tol` times its largest |return| is flat and gets 0
exactly: only rounding error is left there, and dividing it by itself would give advantages near 1.
A group with one valid member gets 0. Deviations are squared in float32: returns above about 1e19,
or that differ by less than about 1e-19, look flat or are not finite. `check.py` bounds their unit.
"""

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.objective.context import Context

__all__ = ['raw', 'group_center', 'group_zscore', 'leave_one_out', 'process_zscore',
           'group_mean_batch_std', 'batch_zscore', 'minus_baseline', 'critic', 'critic_whiten']

_ALL = (0, 1, 2)


def raw(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context) -> jax.Array:
  """No baseline: A = R. Williams 1992."""
  del context
  return masked.clean(returns_PGK, valid_PGK)


def group_center(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                 over: str = 'index', tol: float = 1e-5) -> jax.Array:
  """Return minus the mean of the group: A = R - mean_g R.

  Liu et al. 2025, arXiv:2503.20783 (Dr. GRPO), section 3.2. The sample's own return is in the mean,
  which shrinks the expected gradient by (n - 1) / n and adds no other bias.
  """
  del context
  mean, _ = _statistics(returns_PGK, valid_PGK, over, 1)
  flat = is_flat(returns_PGK, valid_PGK, over=over, tol=tol)
  return masked.clean(jnp.where(flat, 0.0, masked.clean(returns_PGK, valid_PGK) - mean), valid_PGK)


def group_zscore(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                 over: str = 'index', ddof: int = 1, eps: float = 0.0,
                 tol: float = 1e-5) -> jax.Array:
  """Advantage of each chunk against its group: A = (R - mean_g R) / (std_g R + eps).

  Shao et al. 2024, arXiv:2402.03300, section 4.1. The paper leaves the divisor of the std open;
  `ddof=1` is what TRL and verl do. They add eps = 1e-4 and 1e-6 to the std; flat groups are exactly
  0 without it here. For 0/1 rewards with n samples and a share p solved, a prompt's gradient is
  multiplied by about 1 / sqrt(p (1 - p)): very easy and very hard prompts count more.
  """
  centred_PGK = group_center(returns_PGK, valid_PGK, context, over=over, tol=tol)
  _, std = _statistics(returns_PGK, valid_PGK, over, ddof)
  # Chunks of one sample can differ while the means of the samples do not: 'sequence', no spread.
  flat = is_flat(returns_PGK, valid_PGK, over=over, tol=tol) | (std == 0)
  return jnp.where(flat, 0.0, centred_PGK / jnp.where(flat, 1.0, std + eps))


def leave_one_out(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                  over: str = 'index', tol: float = 1e-5) -> jax.Array:
  """Return minus the mean of the others: A = n / (n - 1) * (R - mean_g R).

  Ahmadian et al. 2024, arXiv:2402.14740 (RLOO), section 3. Unbiased, as the baseline does not see
  the sample. With over='pooled' the others are all other chunks of the group; with 'sequence' the
  factor counts samples.
  """
  if returns_PGK.shape[1] < 2:
    raise ValueError('advantages.leave_one_out: needs at least 2 samples of each prompt, got a '
                     'group of 1')
  centred_PGK = group_center(returns_PGK, valid_PGK, context, over=over, tol=tol)
  _, members, axis = _members(returns_PGK, valid_PGK, over)
  n = masked.count(members, axis=axis, keepdims=True, dtype=returns_PGK.dtype)
  return centred_PGK * masked.divide(n, jnp.maximum(n - 1, 0))


def process_zscore(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                   ddof: int = 1, eps: float = 0.0, tol: float = 1e-5) -> jax.Array:
  """GRPO with process rewards: A_k = sum_{j>=k} (R_j - mean) / (std + eps), pooled over the group.

  Shao et al. 2024, arXiv:2402.03300, section 4.1.3. Give it each chunk's own reward: returns
  `look_ahead` with n = 0. It normalises first and sums afterwards, so that a response better than
  average collects advantage for its number of chunks.
  """
  scores_PGK = group_zscore(returns_PGK, valid_PGK, context, over='pooled', ddof=ddof, eps=eps,
                            tol=tol)
  return masked.clean(masked.suffix_sum(scores_PGK, valid_PGK, axis=2), valid_PGK)


def group_mean_batch_std(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                         over: str = 'index', ddof: int = 1, eps: float = 0.0,
                         tol: float = 1e-5) -> jax.Array:
  """Mean of the group, std of all returns of the batch: A = (R - mean_g R) / (std_batch R + eps).

  Liu et al. 2025, arXiv:2508.08221 (Lite PPO), section 4; ScaleRL, arXiv:2510.13786. No prompt is
  weighted by its own difficulty; the scale of one prompt's rewards reaches all others.
  """
  centred_PGK = group_center(returns_PGK, valid_PGK, context, over=over, tol=tol)
  std_111 = masked.std(returns_PGK, valid_PGK, axis=_ALL, ddof=ddof, keepdims=True)
  flat_111 = std_111 == 0
  return jnp.where(flat_111, 0.0, centred_PGK / jnp.where(flat_111, 1.0, std_111 + eps))


def batch_zscore(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                 tol: float = 1e-5) -> jax.Array:
  """Whitened over all valid chunks of the batch: A = (R - mean) / sqrt(var + 1e-8).

  Hu et al. 2025, arXiv:2501.03262 (REINFORCE++). Not a group baseline: the difficulty of a prompt
  stays in it. Trajectories with many chunks weigh more. A flat batch gets 0.
  """
  del context
  centred_PGK, var_111, _ = _whiten_parts(returns_PGK, valid_PGK)
  spread_111 = masked.spread_range(returns_PGK, valid_PGK, axis=_ALL, keepdims=True)
  largest_111 = masked.high(jnp.abs(masked.clean(returns_PGK, valid_PGK)), valid_PGK, axis=_ALL,
                            keepdims=True)
  flat_111 = spread_111 <= tol * largest_111
  return masked.clean(jnp.where(flat_111, 0.0, centred_PGK * jax.lax.rsqrt(var_111 + 1e-8)),
                      valid_PGK)


def minus_baseline(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context) -> jax.Array:
  """Return minus a number that does not contain it: A = R - b.

  b is the reward of a greedy episode of the same prompt (`sample.greedy`; ReMax, Li et al. 2023,
  arXiv:2310.10505), or what a memory slot kept from earlier batches (`memory.py`).
  """
  if context.baseline is None:
    raise ValueError('advantages.minus_baseline: no baseline was given to credit()')
  return masked.clean(returns_PGK - context.baseline, valid_PGK)


def critic(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context) -> jax.Array:
  """Return minus the critic's value: A = R - V. With `lambda_return` this is GAE.

  Schulman et al. 2016, arXiv:1506.02438, eq. 16.
  """
  if context.values_PGK is None:
    raise ValueError('advantages.critic: needs the values of a critic, and this run has none')
  return masked.clean(returns_PGK, valid_PGK) - masked.clean(context.values_PGK, valid_PGK)


def critic_whiten(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context) -> jax.Array:
  """`critic`, whitened over all valid chunks of the batch: (A - mean) / sqrt(var + 1e-8).

  What PPO implementations do (Huang et al. 2022, 37 details, item 7). With fewer than two valid
  chunks, or a variance below 1e-6 which whitening would blow up to noise of size 1, A is unchanged.
  """
  advantages_PGK = critic(returns_PGK, valid_PGK, context)
  centred_PGK, var_111, count_111 = _whiten_parts(advantages_PGK, valid_PGK)
  skip_111 = (count_111 < 2) | (var_111 < 1e-6)
  white_PGK = centred_PGK * jax.lax.rsqrt(var_111 + 1e-8)
  return masked.clean(jnp.where(skip_111, advantages_PGK, white_PGK), valid_PGK)


def is_flat(returns_PGK: jax.Array, valid_PGK: jax.Array, *, over: str = 'index',
            tol: float = 1e-5) -> jax.Array:
  """Whether a group has no spread, [P,1,K] for 'index', else [P,1,1]; true with one member."""
  axis = _axis(over)
  spread = masked.spread_range(returns_PGK, valid_PGK, axis=axis, keepdims=True)
  size_PGK = jnp.abs(masked.clean(returns_PGK, valid_PGK))
  return spread <= tol * masked.high(size_PGK, valid_PGK, axis=axis, keepdims=True)


def _axis(over):
  axes = {'index': 1, 'pooled': (1, 2), 'sequence': (1, 2)}
  if over not in axes:
    raise ValueError(f'advantages: over={over!r}; allowed: {", ".join(axes)}')
  return axes[over]


def _members(returns_PGK, valid_PGK, over):
  """The numbers that statistics are taken over, which of them count, and the axis."""
  axis = _axis(over)
  if over != 'sequence':
    return returns_PGK, valid_PGK, axis
  mean_PG1 = masked.mean(returns_PGK, valid_PGK, axis=2, keepdims=True)
  return mean_PG1, jnp.any(valid_PGK, axis=2, keepdims=True), 1


def _statistics(returns_PGK, valid_PGK, over, ddof):
  x, members, axis = _members(returns_PGK, valid_PGK, over)
  return (masked.mean(x, members, axis=axis, keepdims=True),
          masked.std(x, members, axis=axis, ddof=ddof, keepdims=True))


def _whiten_parts(x_PGK, valid_PGK):
  mean_111 = masked.mean(x_PGK, valid_PGK, axis=_ALL, keepdims=True)
  var_111 = masked.var(x_PGK, valid_PGK, axis=_ALL, ddof=1, keepdims=True)
  count_111 = masked.count(valid_PGK, axis=_ALL, keepdims=True)
  return masked.clean(x_PGK, valid_PGK) - mean_111, var_111, count_111
