"""What stops a token or a row during the update: the slot `gate`, labelled and freely combined.

A function maps Tokens to weight_PGT, which multiplies the surrogate and carries no gradient. A
token of weight 0 stays in the divisor and under the KL term. Unlike a correction, a gate is
evaluated again at every update, with the policy that is being trained; it acts beside any
surrogate. `clip_cov` and `top_entropy` compare the tokens of one whole optimiser batch, so they
take micro = 1, which `check.py` asks for.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from grpo import masked
from grpo import types
from grpo.objective import binding
from grpo.objective import corrections
from grpo.objective import surrogates
from grpo.objective import trust

__all__ = ['off_policy_sequence', 'sequence_kl', 'clip_cov', 'top_entropy']


@types.pytree
class Tokens:
  """What a gate may look at. All [P,G,T], 0 off the mask; log-probs in nats."""
  logp_PGT: jax.Array             # of the policy that is trained
  old_logp_PGT: jax.Array         # of the anchor
  sampler_logp_PGT: jax.Array     # as they were sampled
  advantages_PGT: jax.Array
  entropy_PGT: jax.Array | None   # of the next-token distribution
  open_PGT: jax.Array             # weight of the surrogate on A grad logp; 0 where it lost it
  uniform_PGT: jax.Array | None   # numbers in [0, 1), the same in every pass over the batch
  mask_PGT: jax.Array             # bool


def off_policy_sequence(tokens: Tokens, *, delta: float) -> jax.Array:
  """0 on rows with A < 0 and mean_t (sampler - logp) > delta, else 1.

  Off-policy sequence mask, DeepSeek-V3.2, arXiv:2512.02556. Bad rows that the policy
  has already left are not pushed further. delta is in nats a token and not published: TRL suggests
  0.5, others use 1e-4. The sign of A is read at each token; it is one a row for outcome credit.
  """
  x_PGT = tokens.sampler_logp_PGT - tokens.logp_PGT
  mean_PG1 = masked.mean(x_PGT, tokens.mask_PGT, axis=2, keepdims=True)
  return _weight((tokens.advantages_PGT >= 0) | (mean_PG1 <= delta), tokens)


def sequence_kl(tokens: Tokens, *, delta: float) -> jax.Array:
  """1 on rows whose mean over tokens of the binary KL, sampler to policy, is at most delta.

  The sequence trust region of FlashREINFORCE (delta 3e-3 or 5e-3), as in the loss that its authors
  publish: see `trust.binary_kl`, both signs of A. The ratio of an admitted token is not clipped.
  """
  kl_PGT = trust.binary_kl(jnp.minimum(tokens.sampler_logp_PGT, 0.0),
                           jnp.minimum(tokens.logp_PGT, 0.0))
  mean_PG1 = masked.mean(kl_PGT, tokens.mask_PGT, axis=2, keepdims=True)
  return _weight(jnp.broadcast_to(mean_PG1 <= delta, tokens.mask_PGT.shape), tokens)


def clip_cov(tokens: Tokens, *, share: float = 2e-4, low: float = 1.0,
             high: float = 5.0) -> jax.Array:
  """0 on a random max(1, floor(share N)) of the tokens with low < covariance < high, else 1.

  Cui et al. 2025, arXiv:2505.22617; the covariance is `trust.covariance`. Tokens that
  the surrogate has clipped already are not drawn.
  """
  cov_PGT = trust.covariance(tokens.logp_PGT, tokens.advantages_PGT, tokens.mask_PGT)
  able_PGT = tokens.mask_PGT & (cov_PGT > low) & (cov_PGT < high)
  able_PGT = able_PGT & ((tokens.open_PGT != 0) | (tokens.advantages_PGT == 0))
  rank_PGT, _ = corrections.ranks(tokens.uniform_PGT, able_PGT)
  return _weight(~(able_PGT & (rank_PGT < trust.part(share, tokens.mask_PGT))), tokens)


def top_entropy(tokens: Tokens, *, share: float = 0.2) -> jax.Array:
  """1 on the share of tokens with the largest entropy: at or above their 1 - share quantile.

  Wang et al. 2025, arXiv:2506.01939 (0.2). The quantile is over all tokens of the
  optimiser batch, linear between two of them.
  """
  _, sorted_N = corrections.ranks(tokens.entropy_PGT, tokens.mask_PGT)
  place = (1.0 - share) * jnp.maximum(masked.count(tokens.mask_PGT) - 1.0, 0.0)
  low = jnp.floor(place).astype(jnp.int32)
  below, above = sorted_N[low], sorted_N[jnp.ceil(place).astype(jnp.int32)]
  part = place - low
  quantile = jnp.where(part > 0, below + part * (above - below), below)
  return _weight(tokens.entropy_PGT >= quantile, tokens)


def needs_draws(slots: tuple[Callable, ...]) -> bool:
  """Whether a gate reads random numbers."""
  return any(binding.plain(f) is clip_cov for f in slots)


def weighed(method, loss_PGT: jax.Array, log_ratio_PGT: jax.Array, logp_PGT: jax.Array,
            old_logp_PGT: jax.Array, entropy_PGT: jax.Array | None,
            credit) -> tuple[jax.Array, dict]:
  """The surrogate's losses times corrections and gates, and metrics of both."""
  mask_PGT, metrics = credit.mask_PGT, {}
  if credit.correction_PGT is not None:
    weight_PGT = credit.correction_PGT
    loss_PGT = loss_PGT * weight_PGT
    metrics = {'correction/weight': types.Mean.of(weight_PGT, mask_PGT),
               'correction/dropped': types.Mean.of(weight_PGT == 0, mask_PGT)}
  if not method.gate:
    return loss_PGT, metrics
  logp_PGT, log_ratio_PGT = jax.lax.stop_gradient((logp_PGT, log_ratio_PGT))
  advantages_PGT = credit.advantages_PGT
  tokens = Tokens(
      logp_PGT=logp_PGT, old_logp_PGT=old_logp_PGT,
      sampler_logp_PGT=masked.clean(credit.sampler_logp_PGT, mask_PGT),
      advantages_PGT=advantages_PGT,
      entropy_PGT=None if entropy_PGT is None else masked.clean(entropy_PGT, mask_PGT),
      open_PGT=surrogates.gate(method.surrogate, log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT),
      uniform_PGT=credit.uniform_PGT, mask_PGT=mask_PGT)
  weight_PGT = jnp.ones(mask_PGT.shape, logp_PGT.dtype)
  for slot in method.gate:
    weight_PGT = weight_PGT * jax.lax.stop_gradient(slot(tokens))
  metrics['gate/dropped'] = types.Mean.of(weight_PGT == 0, mask_PGT)
  return loss_PGT * weight_PGT, metrics


def _weight(keep_PGT, tokens):
  return (keep_PGT & tokens.mask_PGT).astype(tokens.logp_PGT.dtype)
