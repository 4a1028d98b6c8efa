"""More advantages for the slot `advantages`: other baselines, other scales.

Signature, flat groups and `over` are those of `advantages.py`. Everything here takes statistics for
each chunk index by itself ('index'), inside a group unless its docstring says batch.
"""

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.objective import advantages
from grpo.objective.context import Context

__all__ = ['length_weighted', 'mean_over_mean', 'beta_density', 'informative_center',
           'log_mean_exp', 'best_of_group', 'decoupled_zscore', 'center_whiten', 'batch_center',
           'baseline_zscore', 'minus_optimal_value']

_ALL = (0, 1, 2)


def length_weighted(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                    tol: float = 1e-5) -> jax.Array:
  """A = R - sum_g L_g R_g / sum_g L_g, L the trained tokens of the chunk.

  OPO, arXiv:2505.23585: the baseline of least variance if the squared norm of a row's
  gradient is proportional to its length. The sample's own return is in it: a small bias.
  """
  length_PGK = context.tokens_PGK.astype(returns_PGK.dtype)
  mean_P1K = masked.divide(masked.total(length_PGK * masked.clean(returns_PGK, valid_PGK),
                                        valid_PGK, axis=1, keepdims=True),
                           masked.total(length_PGK, valid_PGK, axis=1, keepdims=True))
  return _minus(returns_PGK, valid_PGK, mean_P1K, tol)


def mean_over_mean(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                   tol: float = 1e-5) -> jax.Array:
  """A = (R - mean_g R) / mean_g R, and 0 where the mean is not positive.

  MaxRL, arXiv:2602.02710: the gradient of log p, truncated at order G. For rewards of 0 and 1: with
  one success in the group it gets A = G - 1. A negative mean has no meaning here and gives 0.
  """
  centred_PGK = advantages.group_center(returns_PGK, valid_PGK, context, tol=tol)
  mean_P1K = masked.mean(returns_PGK, valid_PGK, axis=1, keepdims=True)
  return masked.divide(centred_PGK, jnp.broadcast_to(jnp.maximum(mean_P1K, 0.0),
                                                     centred_PGK.shape))


def beta_density(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                 most: float = 1e6, tol: float = 1e-5) -> jax.Array:
  """A = (R - p) min(1 / BetaPDF(p; alpha, beta), most), p the group's mean, R in [0, 1].

  BNPO, arXiv:2506.02864. The law is fitted to the p of all prompts of the batch by its
  moments m and v (divisor n - 1): a = (m (1 - m) / v - 1) m, b = (m (1 - m) / v - 1) (1 - m),
  alpha = max(1, 1 + a / 3), beta = max(1, 1 + b / 3). Both are 1, so A = R - p, where v is 0 in
  float32 or the batch has one prompt. Not what TRL calls bnpo, which is a way to count tokens.
  """
  centred_PGK = advantages.group_center(returns_PGK, valid_PGK, context, tol=tol)
  p_P1K = masked.mean(returns_PGK, valid_PGK, axis=1, keepdims=True)
  some_P1K = jnp.any(valid_PGK, axis=1, keepdims=True)
  m_11K = masked.mean(p_P1K, some_P1K, axis=0, keepdims=True)
  v_11K = masked.var(p_P1K, some_P1K, axis=0, keepdims=True)
  flat_11K = masked.spread_range(p_P1K, some_P1K, axis=0, keepdims=True) <= tol * m_11K
  flat_11K = flat_11K | (v_11K < jnp.finfo(v_11K.dtype).tiny)  # squares of rewards below 1e-19
  scale_11K = m_11K * (1.0 - m_11K) / jnp.where(flat_11K, 1.0, v_11K) - 1.0
  alpha_11K, beta_11K = (
      jnp.where(flat_11K, 1.0, jnp.maximum(1.0, 1.0 + scale_11K * x_11K / 3.0))
      for x_11K in (m_11K, 1.0 - m_11K))
  inner_P1K = (p_P1K > 0) & (p_P1K < 1)   # at 0 and 1 groups of rewards in [0, 1] are flat
  safe_P1K = jnp.where(inner_P1K, p_P1K, 0.5)
  log_P1K = ((alpha_11K - 1.0) * jnp.log(safe_P1K) + (beta_11K - 1.0) * jnp.log1p(-safe_P1K)
             - jax.scipy.special.betaln(alpha_11K, beta_11K))
  weight_P1K = jnp.minimum(jnp.exp(jnp.minimum(-log_P1K, 80.0)), most)
  return centred_PGK * jnp.where(inner_P1K, weight_P1K, 1.0)


def informative_center(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                       tol: float = 1e-5) -> jax.Array:
  """A = (R - mean_g R) times groups / groups with spread.

  GPG, arXiv:2504.02546: flat groups have no gradient and would only dilute the others.
  The factor is the official code's; it also samples again until half of the groups have spread,
  which is not done here.
  """
  centred_PGK = advantages.group_center(returns_PGK, valid_PGK, context, tol=tol)
  flat_P1K = advantages.is_flat(returns_PGK, valid_PGK, tol=tol)
  some_P1K = jnp.any(valid_PGK, axis=1, keepdims=True)
  groups_11K = masked.count(some_P1K, axis=0, keepdims=True, dtype=returns_PGK.dtype)
  spread_11K = masked.count(some_P1K & ~flat_P1K, axis=0, keepdims=True, dtype=returns_PGK.dtype)
  return centred_PGK * masked.divide(groups_11K, spread_11K)


def log_mean_exp(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *, tau: float,
                 tol: float = 1e-5) -> jax.Array:
  """A = R - tau log mean_{j != i} exp(R_j / tau): the log-partition of the mirror-descent optimum.

  arXiv:2602.05933 ('partition'), over the other samples of the group.
  """
  del context
  # Differences to the largest return that is seen: exp neither overflows nor underflows to 0 alone.
  x_PGK = masked.clean(returns_PGK, valid_PGK) / tau
  group = returns_PGK.shape[1]
  seen_PGGK = ~jnp.eye(group, dtype=bool)[None, :, :, None] & valid_PGK[:, None]
  each_PGGK = jnp.broadcast_to(x_PGK[:, None], seen_PGGK.shape)
  top_PG1K = masked.high(each_PGGK, seen_PGGK, axis=2, keepdims=True)
  below_PGGK = jnp.where(seen_PGGK, each_PGGK - top_PG1K, 0.0)
  mean_PGK = masked.mean(jnp.exp(below_PGGK), seen_PGGK, axis=2)
  some_PGK = jnp.any(seen_PGGK, axis=2)
  base_PGK = tau * (jnp.log(jnp.where(some_PGK, mean_PGK, 1.0)) + top_PG1K[:, :, 0])
  return jnp.where(some_PGK, _minus(returns_PGK, valid_PGK, base_PGK, tol), 0.0)


def best_of_group(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                  tol: float = 1e-5) -> jax.Array:
  """Largest return minus the second largest on the best sample, 0 on all others.

  The pass@k advantage of verl (`grpo_passk`). The first of equals is the
  best, and then it gets 0.
  """
  del context
  x_PGK = masked.clean(returns_PGK, valid_PGK, -jnp.inf)
  best_P1K = jnp.argmax(x_PGK, axis=1, keepdims=True)
  index_PGK = jax.lax.broadcasted_iota(best_P1K.dtype, x_PGK.shape, 1)
  first_PGK = (index_PGK == best_P1K) & valid_PGK
  second_P1K = masked.high(returns_PGK, valid_PGK & ~first_PGK, axis=1, keepdims=True)
  flat_P1K = advantages.is_flat(returns_PGK, valid_PGK, tol=tol)
  return jnp.where(first_PGK & ~flat_P1K, masked.clean(returns_PGK, valid_PGK) - second_P1K, 0.0)


def decoupled_zscore(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                     weights: tuple[float, ...] = (), ddof: int = 1, eps: float = 1e-4,
                     tol: float = 1e-5) -> jax.Array:
  """Each reward normalised in its group, then their weighted sum in the batch.

  z_n = (R_n - mean_g) / (std_g + eps), x = sum_n w_n z_n, A = (x - mean_batch) / (std_batch + eps).
  GDPO, arXiv:2601.05242. The rewards are the task's and what each shaping slot added, in
  their order, summed over the episode; the slot `returns` is not read. A sum would give different
  vectors of rewards the same advantage.

  Args:
    returns_PGK: not read.
    valid_PGK: valid chunks.
    context: with `parts_PGN`, the episode's rewards by source.
    weights: of the rewards; empty for 1 each.
    ddof: divisors are n - ddof.
    eps: added to each std.
    tol: see `advantages.is_flat`.
  """
  del returns_PGK
  if context.parts_PGN is None:
    raise ValueError('baselines.decoupled_zscore: no rewards by source were given')
  parts_PGN = context.parts_PGN
  weights = weights or (1.0,) * parts_PGN.shape[2]
  if len(weights) != parts_PGN.shape[2]:
    raise ValueError(f'baselines.decoupled_zscore: {len(weights)} weights for '
                     f'{parts_PGN.shape[2]} rewards: the task and each shaping slot')
  on_PG1 = jnp.any(valid_PGK, axis=2, keepdims=True)
  on_PGN = jnp.broadcast_to(on_PG1, parts_PGN.shape)
  z_PGN = advantages.group_zscore(parts_PGN, on_PGN, context, ddof=ddof, eps=eps, tol=tol)
  weighted = [w * z_PGN[..., i:i + 1] for i, w in enumerate(weights)]
  x_PG1 = sum(weighted[1:], start=weighted[0])
  return jnp.where(valid_PGK, _batch_zscore(x_PG1, on_PG1, ddof, eps, tol), 0.0)


def center_whiten(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                  tol: float = 1e-5) -> jax.Array:
  """x = R - mean_g R, then (x - mean) / sqrt(var + 1e-8) over all trained tokens of the batch.

  REINFORCE++-baseline, arXiv:2501.03262. A chunk counts for its tokens, as in the public
  implementations: long rows dominate mean and variance (divisor n - 1).
  """
  x_PGK = advantages.group_center(returns_PGK, valid_PGK, context, tol=tol)
  count_PGK = jnp.where(valid_PGK, context.tokens_PGK, 0).astype(x_PGK.dtype)
  number = jnp.sum(count_PGK, keepdims=True)
  centred_PGK = x_PGK - masked.divide(jnp.sum(count_PGK * x_PGK, keepdims=True), number)
  var_111 = masked.divide(jnp.sum(count_PGK * jnp.square(centred_PGK), keepdims=True),
                          jnp.maximum(number - 1.0, 0.0))
  return masked.clean(centred_PGK * jax.lax.rsqrt(var_111 + 1e-8), valid_PGK)


def batch_center(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                 tol: float = 1e-5) -> jax.Array:
  """A = R - mean of the batch, without a std: FlashREINFORCE. A flat batch gets 0 exactly.

  For one sample of each prompt: the difficulty of a prompt stays in its advantage.
  """
  del context
  mean_111 = masked.mean(returns_PGK, valid_PGK, axis=_ALL, keepdims=True)
  centred_PGK = masked.clean(returns_PGK, valid_PGK) - mean_111
  return masked.clean(jnp.where(_flat(returns_PGK, valid_PGK, tol), 0.0, centred_PGK), valid_PGK)


def baseline_zscore(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                    ddof: int = 1, eps: float = 1e-8, tol: float = 1e-5) -> jax.Array:
  """x = R - b, then (x - mean) / (std + eps) over the batch: `minus_baseline`, normalised.

  Single-stream SPO, arXiv:2509.13232, with the b of `memory.prompt_tracker`.
  """
  x_PGK = advantages.minus_baseline(returns_PGK, valid_PGK, context)
  return _batch_zscore(x_PGK, valid_PGK, ddof, eps, tol)


def minus_optimal_value(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                        beta: float) -> jax.Array:
  """A = R - V*, V* = beta log mean_n exp(R_n / beta) over N episodes of the reference.

  V* is the value of the prompt under the best policy with a KL penalty of weight beta to the
  reference. Brantley et al. 2025, arXiv:2505.20686 (A*-PO), first stage: N = 8, beta = 0.5. The
  episodes are those of `sample.reference`. A batch without spread keeps its A: it says how far the
  policy is from the best one.
  """
  if context.guide_PN is None:
    raise ValueError('baselines.minus_optimal_value: no rewards of the reference were given')
  x_PN = context.guide_PN / beta
  mean_P1 = jax.nn.logsumexp(x_PN, axis=1, keepdims=True) - jnp.log(x_PN.shape[1])
  value_P11 = (beta * mean_P1)[..., None]
  return masked.clean(masked.clean(returns_PGK, valid_PGK) - value_P11, valid_PGK)


def _minus(returns_PGK, valid_PGK, base, tol):
  """R - base; exactly 0 in flat groups."""
  flat_P1K = advantages.is_flat(returns_PGK, valid_PGK, tol=tol)
  x_PGK = masked.clean(returns_PGK, valid_PGK) - base
  return masked.clean(jnp.where(flat_P1K, 0.0, x_PGK), valid_PGK)


def _flat(x_PGK, valid_PGK, tol):
  """Whether a batch has no spread, [1,1,1]."""
  largest_111 = masked.high(jnp.abs(masked.clean(x_PGK, valid_PGK)), valid_PGK, axis=_ALL,
                            keepdims=True)
  return masked.spread_range(x_PGK, valid_PGK, axis=_ALL, keepdims=True) <= tol * largest_111


def _batch_zscore(x_PGK, valid_PGK, ddof, eps, tol):
  mean_111 = masked.mean(x_PGK, valid_PGK, axis=_ALL, keepdims=True)
  std_111 = masked.std(x_PGK, valid_PGK, axis=_ALL, ddof=ddof, keepdims=True)
  flat_111 = _flat(x_PGK, valid_PGK, tol) | (std_111 == 0)
  out_PGK = (masked.clean(x_PGK, valid_PGK) - mean_111) / jnp.where(flat_111, 1.0, std_111 + eps)
  return masked.clean(jnp.where(flat_111, 0.0, out_PGK), valid_PGK)
