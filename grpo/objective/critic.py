"""The critic's side of a method: what it is told to fit, and how wrong it is."""

import dataclasses

import jax
import jax.numpy as jnp

from grpo import masked

__all__ = ['CriticSpec', 'value_loss']


@dataclasses.dataclass(frozen=True)
class CriticSpec:
  """How a critic is trained. Plain data; every field can be given to any method.

  Attributes:
    lam: lambda of the critic's targets; 1 gives Monte-Carlo returns (VC-PPO, arXiv:2503.01491).
    discount: discount of the targets, per chunk.
    updates: K, critic passes over a batch for each policy step.
    warmup: steps in which only the critic learns.
    learning_rate: of the critic's own optimiser.
    freeze: parameters whose path contains this word are not trained; empty freezes none.
    clip: half-width of the clipped value loss, in units of return; 0 is plain squared error.
    start: trunk at step 0: 'policy' (its weights) or 'fresh'.
    bootstrap: what the targets of truncated trajectories end with, see `returns.py`.
    rows: which rows are fitted: 'all', or 'finished', those that no limit cut.
  """
  lam: float
  discount: float
  updates: int
  warmup: int
  learning_rate: float
  freeze: str
  clip: float
  start: str
  bootstrap: str = 'critic'
  rows: str = 'all'

  def __post_init__(self):
    if self.start not in ('policy', 'fresh'):
      raise ValueError(f'critic.start: allowed are policy, fresh; got {self.start!r}')
    if self.rows not in ('all', 'finished'):
      raise ValueError(f'critic.rows: allowed are all, finished; got {self.rows!r}')


def value_loss(values_PGT: jax.Array, old_values_PGT: jax.Array, targets_PGT: jax.Array,
               mask_PGT: jax.Array, *, clip: float) -> jax.Array:
  """0.5 max((V - R)^2, (V_old + clip(V - V_old, -c, c) - R)^2); without the max where c is 0.

  Schulman et al. 2017, as implemented by OpenAI baselines. V_old comes from the forward pass that
  produced the advantages.
  """
  values_PGT = masked.clean(values_PGT, mask_PGT)
  old_values_PGT = jax.lax.stop_gradient(masked.clean(old_values_PGT, mask_PGT))
  targets_PGT = jax.lax.stop_gradient(masked.clean(targets_PGT, mask_PGT))
  near_PGT = old_values_PGT + jnp.clip(values_PGT - old_values_PGT, -clip, clip)
  plain_PGT = jnp.square(values_PGT - targets_PGT)
  worse_PGT = jnp.maximum(plain_PGT, jnp.square(near_PGT - targets_PGT))
  return 0.5 * jnp.where(clip > 0, worse_PGT, plain_PGT)
