"""KL penalties to a reference as a loss term: the slot `kl`.

A function maps (logp_PGT, ref_logp_PGT, log_ratio_PGT) to kl_PGT, in nats, with
x = logp - ref_logp on tokens that the policy sampled. The value estimates KL(policy||ref), but what
trains is the derivative, and the two are different things (arXiv:2510.01555; arXiv:2506.09477).
Expected gradient on policy, samples held fixed, for one decision:

  k1                       0: the expected score is zero, so the term is pure noise
  k2                       that of KL(policy||ref)
  k3                       that of KL(ref||policy), the other direction
  importance_weighted_k3   that of KL(policy||ref), off policy as well

For sequences a term per token leaves out the effect of early tokens on later KL; only k1 in the
reward, summed over later tokens, has the full gradient (`rewards.kl_in_reward`).
"""

import jax
import jax.numpy as jnp

__all__ = ['none', 'k1', 'k2', 'k3', 'importance_weighted_k3']

_LIMIT = 20.0  # nats; exp of a larger log-ratio is noise in float32


def none(logp_PGT: jax.Array, ref_logp_PGT: jax.Array | None,
         log_ratio_PGT: jax.Array) -> jax.Array:
  """No penalty and no reference model: 0, with zero gradient."""
  del ref_logp_PGT, log_ratio_PGT
  return jnp.zeros_like(logp_PGT)


def k1(logp_PGT: jax.Array, ref_logp_PGT: jax.Array, log_ratio_PGT: jax.Array) -> jax.Array:
  """x: unbiased, of either sign; as a loss its expected gradient is 0. arXiv:2510.01555."""
  del log_ratio_PGT
  return logp_PGT - jax.lax.stop_gradient(ref_logp_PGT)


def k2(logp_PGT: jax.Array, ref_logp_PGT: jax.Array, log_ratio_PGT: jax.Array) -> jax.Array:
  """x^2 / 2: biased value, never negative; its gradient on policy is that of KL(policy||ref)."""
  x_PGT = k1(logp_PGT, ref_logp_PGT, log_ratio_PGT)
  return 0.5 * x_PGT * x_PGT


def k3(logp_PGT: jax.Array, ref_logp_PGT: jax.Array, log_ratio_PGT: jax.Array) -> jax.Array:
  """exp(-x) - 1 + x: unbiased and never negative; its gradient is that of KL(ref||policy).

  The KL term of GRPO: Shao et al. 2024, arXiv:2402.03300, eq. 4. At logp = -1, ref_logp = -2 it is
  0.367879; the swapped form, 0.718282, is the estimator of another quantity.
  """
  x_PGT = jnp.clip(k1(logp_PGT, ref_logp_PGT, log_ratio_PGT), -_LIMIT, _LIMIT)
  return jnp.expm1(-x_PGT) + x_PGT


def importance_weighted_k3(logp_PGT: jax.Array, ref_logp_PGT: jax.Array,
                           log_ratio_PGT: jax.Array) -> jax.Array:
  """r * k3, gradient through r = policy / old: that of KL(policy||ref), also off policy.

  DeepSeek-V3.2, arXiv:2512.02556, section 3.1. With a detached ratio it would be that of k3 again.
  """
  ratio_PGT = jnp.exp(jnp.clip(log_ratio_PGT, -_LIMIT, _LIMIT))
  return ratio_PGT * k3(logp_PGT, ref_logp_PGT, log_ratio_PGT)
