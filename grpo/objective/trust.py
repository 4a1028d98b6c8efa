"""More policy losses for the slot `surrogate`: other ways to bound a step than PPO's clip.

Signature, conventions and the first-step property (gradient -A grad logp at r = 1) are those of
`surrogates.py`. `kl_cov` compares the tokens of one whole optimiser batch, so it takes micro = 1.
"""

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.objective import corrections
from grpo.objective import surrogates

__all__ = ['importance', 'gmpo', 'sapo', 'dppo_tv', 'dppo_kl', 'vespo', 'kl_cov']

_FLOOR = 1e-7  # smallest probability of the other tokens that a logarithm sees


def importance(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
               mask_PGT: jax.Array) -> jax.Array:
  """-A r: the ratio without any bound. Kakade and Langford 2002; M2PO, arXiv:2510.01161."""
  del logp_PGT
  ratio_PGT = surrogates.ratio(masked.clean(log_ratio_PGT, mask_PGT))
  return masked.clean(-masked.clean(advantages_PGT, mask_PGT) * ratio_PGT, mask_PGT)


def gmpo(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
         mask_PGT: jax.Array, *, low: float, high: float) -> jax.Array:
  """-A exp(mean_t u_t) on each token of the row: the geometric mean of clipped token ratios.

  u = min(d, high) where A > 0 and max(d, -low) elsewhere, d the log-ratio: one-sided, and the band
  is one of log-ratios. Zhao et al. 2025, arXiv:2507.20673 (0.4 on both sides). A clipped
  token has no gradient, but its clipped ratio stays in the mean. Aggregate `sequence` is the
  paper's: GSPO clips the mean, this clips before it.
  """
  del logp_PGT
  advantages_PGT = masked.clean(advantages_PGT, mask_PGT)
  d_PGT = jnp.clip(masked.clean(log_ratio_PGT, mask_PGT), -surrogates.LIMIT, surrogates.LIMIT)
  up_PGT = jnp.where(d_PGT > high, high, d_PGT)
  down_PGT = jnp.where(d_PGT < -low, -low, d_PGT)
  u_PGT = jnp.where(advantages_PGT > 0, up_PGT, down_PGT)
  mean_PG1 = masked.mean(u_PGT, mask_PGT, axis=2, keepdims=True)
  return masked.clean(-advantages_PGT * jnp.exp(mean_PG1), mask_PGT)


def sapo(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
         mask_PGT: jax.Array, *, positive: float = 1.0, negative: float = 1.05) -> jax.Array:
  """-A (4 / tau) sigmoid(tau (r - 1)): a soft gate, sharper where A is negative.

  Gao et al. 2025, arXiv:2511.20347. tau is `positive` where A > 0 and `negative`
  elsewhere. The weight on A grad logp is 4 r s (1 - s), which fades as exp(-tau |r - 1|).
  """
  del logp_PGT
  advantages_PGT = masked.clean(advantages_PGT, mask_PGT)
  ratio_PGT = surrogates.ratio(masked.clean(log_ratio_PGT, mask_PGT))
  tau_PGT = jnp.where(advantages_PGT > 0, positive, negative)
  gate_PGT = jax.nn.sigmoid(tau_PGT * (ratio_PGT - 1.0)) * 4.0 / tau_PGT
  return masked.clean(-advantages_PGT * gate_PGT, mask_PGT)


def dppo_tv(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
            mask_PGT: jax.Array, *, low: float = 0.15, high: float = 0.15,
            cap: float = 20.0) -> jax.Array:
  """-sg[keep min(r, cap)] A logp; keep while the probability has not moved too far.

  A > 0: p - p_old <= high; else p - p_old >= -low. A ratio clips rare tokens for tiny changes;
  total variation does not. DPPO, arXiv:2602.04879; 0.15 is what its scripts use. Needs
  the ratio of tokens.
  """
  p_PGT, old_PGT = map(jnp.exp, _both(log_ratio_PGT, logp_PGT, mask_PGT))
  moved_PGT = p_PGT - old_PGT
  keep_PGT = jnp.where(advantages_PGT > 0, moved_PGT <= high, moved_PGT >= -low)
  return _kept(keep_PGT, log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT, cap)


def dppo_kl(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
            mask_PGT: jax.Array, *, bound: float = 0.05, cap: float = 20.0) -> jax.Array:
  """`dppo_tv` with the KL of {token, rest}, old to new, at most `bound` nats.

  A token that moves back (A > 0 and p <= p_old, or A <= 0 and p >= p_old) is always kept.
  """
  new_PGT, old_PGT = _both(log_ratio_PGT, logp_PGT, mask_PGT)
  back_PGT = jnp.where(advantages_PGT > 0, new_PGT <= old_PGT, new_PGT >= old_PGT)
  keep_PGT = back_PGT | (binary_kl(old_PGT, new_PGT) <= bound)
  return _kept(keep_PGT, log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT, cap)


def vespo(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
          mask_PGT: jax.Array, *, k_positive: float = 2.0, lam_positive: float = 3.0,
          k_negative: float = 3.0, lam_negative: float = 2.0) -> jax.Array:
  """-sg[phi(w)] A logp with phi(w) = e^lam w^k e^{-lam w} and w the product of the row's ratios.

  VESPO, arXiv:2602.10693; phi(1) = 1. The two numbers differ by the sign of A. Needs ratio
  `product`.
  """
  advantages_PGT = masked.clean(advantages_PGT, mask_PGT)
  log_PGT = jnp.clip(masked.clean(log_ratio_PGT, mask_PGT), -surrogates.LIMIT, surrogates.LIMIT)
  k_PGT = jnp.where(advantages_PGT >= 0, k_positive, k_negative)
  lam_PGT = jnp.where(advantages_PGT >= 0, lam_positive, lam_negative)
  phi_PGT = jnp.exp(lam_PGT + k_PGT * log_PGT - lam_PGT * jnp.exp(log_PGT))
  return (jax.lax.stop_gradient(phi_PGT)
          * surrogates.reinforce(log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT))


def kl_cov(log_ratio_PGT: jax.Array, logp_PGT: jax.Array, advantages_PGT: jax.Array,
           mask_PGT: jax.Array, *, coef: float = 1.0, share: float = 2e-4) -> jax.Array:
  """-A r, plus coef |log r| on the share of tokens with the largest covariance.

  Cui et al. 2025, arXiv:2505.22617. max(1, floor(share N)) of the N tokens are charged.
  Where log r is 0, as at the first update of a batch, |log r| has gradient 0 and nothing happens.
  """
  loss_PGT = importance(log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT)
  rank_PGT, _ = corrections.ranks(-covariance(logp_PGT, advantages_PGT, mask_PGT), mask_PGT)
  chosen_PGT = mask_PGT & (rank_PGT < part(share, mask_PGT))
  drift_PGT = masked.clean(log_ratio_PGT, mask_PGT)
  size_PGT = drift_PGT * jax.lax.stop_gradient(jnp.sign(drift_PGT))  # jnp.abs has slope 1 at 0
  return loss_PGT + jnp.where(chosen_PGT, coef * size_PGT, 0.0)


def covariance(logp_PGT: jax.Array, advantages_PGT: jax.Array, mask_PGT: jax.Array) -> jax.Array:
  """(A - mean A) (logp - mean logp) of each token, over the mask; no gradient.

  Large where a likely token is praised or an unlikely one blamed: that is where entropy is lost.
  arXiv:2505.22617.
  """
  def centred(x_PGT):
    return masked.clean(x_PGT, mask_PGT) - masked.mean(x_PGT, mask_PGT)
  return masked.clean(jax.lax.stop_gradient(centred(advantages_PGT) * centred(logp_PGT)), mask_PGT)


def binary_kl(old_logp: jax.Array, logp: jax.Array) -> jax.Array:
  """KL of the sampled token against all others, old to new: p log(p/q) + (1-p) log((1-p)/(1-q))."""
  rest_old, rest = (jnp.maximum(-jnp.expm1(x), _FLOOR) for x in (old_logp, logp))
  return jnp.exp(old_logp) * (old_logp - logp) + rest_old * (jnp.log(rest_old) - jnp.log(rest))


def part(share, mask_PGT: jax.Array) -> jax.Array:
  """max(1, floor(share N)) of the N tokens of a mask, int32 []."""
  number = jnp.floor(share * masked.count(mask_PGT) * (1.0 + 1e-6))
  return jnp.maximum(1, number.astype(jnp.int32))


def _both(log_ratio_PGT, logp_PGT, mask_PGT):
  """Log-probs of the policy and of the old one, at most 0, without gradient."""
  logp_PGT = jax.lax.stop_gradient(masked.clean(logp_PGT, mask_PGT))
  log_ratio_PGT = jax.lax.stop_gradient(masked.clean(log_ratio_PGT, mask_PGT))
  return jnp.minimum(logp_PGT, 0.0), jnp.minimum(logp_PGT - log_ratio_PGT, 0.0)


def _kept(keep_PGT, log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT, cap):
  """-sg[keep min(r, cap)] A logp."""
  ratio_PGT = jnp.minimum(surrogates.ratio(masked.clean(log_ratio_PGT, mask_PGT)), cap)
  weight_PGT = jax.lax.stop_gradient(jnp.where(keep_PGT, ratio_PGT, 0.0))
  return weight_PGT * surrogates.reinforce(log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT)
