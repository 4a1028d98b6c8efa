"""What a training step says about itself. Metrics are types.Mean and types.Peak.

Metrics read the tensors and masks that were trained on; nothing is computed a second way.
"""

import jax.numpy as jnp
import optax

from grpo import masked
from grpo import types

__all__ = ['rollout', 'credit', 'optimiser', 'gap', 'turned', 'POSITIONS']

AGES = (0, 1, 2, 4, 8, 16)  # edges of the histogram of staleness, in steps
POSITIONS = 4   # parts of an episode that explained variance is reported for


def rollout(sampled: types.Rollout) -> dict:
  """Episodes as they were sampled, before any filter; those that were scored, where it matters."""
  reward_PG = jnp.sum(sampled.rewards, axis=(2, 3))
  length_PG = jnp.sum(sampled.mask, axis=(2, 3), dtype=jnp.float32)
  turns_PG = 1.0 + jnp.max(sampled.turn, axis=(2, 3))
  on_PG = types.scored(sampled)
  spread_P = masked.spread_range(reward_PG, on_PG, axis=1)
  return {
      'reward/episode': types.Mean.of(reward_PG, on_PG),
      'reward/unscorable': types.Mean.of(~on_PG),
      'success/sampled': types.Mean.of(sampled.success, on_PG),
      'length/tokens': types.Mean.of(length_PG, on_PG),
      'length/right': types.Mean.of(length_PG, on_PG & (sampled.success > 0.5)),
      'length/wrong': types.Mean.of(length_PG, on_PG & (sampled.success <= 0.5)),
      'length/turns': types.Mean.of(turns_PG, on_PG),
      'length/truncated': types.Mean.of(sampled.truncated),
      'group/informative': types.Mean.of(spread_P > 0),
  }


def credit(trained: types.Rollout, credit_, values_PGT, now, stale: bool = False) -> dict:
  """Credit as it was trained on, and the health of the critic; with `stale`, how old it is."""
  mask_PGT = credit_.mask_PGT
  out = {
      'advantage/abs': types.Mean.of(jnp.abs(credit_.advantages_PGT), mask_PGT),
      'group/kept': types.Mean.of(jnp.any(mask_PGT, axis=2)),
      'stale/lag': types.Mean.of(now - trained.version, jnp.any(mask_PGT, axis=2)),
  }
  if stale:
    kept_PG = jnp.any(mask_PGT, axis=2)
    age_PG = jnp.where(kept_PG, now - trained.version, 0)
    out['stale/lag_max'] = types.Peak.of(age_PG)
    for low, high in zip(AGES, (*AGES[1:], None), strict=True):  # a histogram, by doubling
      here_PG = (age_PG >= low) & (True if high is None else age_PG < high)
      name = f'{low}_up' if high is None else str(low) if high == low + 1 else f'{low}_{high - 1}'
      out[f'stale/share_{name}'] = types.Mean.of(here_PG, kept_PG)
  if values_PGT is None:
    return out
  valid_PGT = credit_.value_mask_PGT
  order_PGT = masked.running_count(valid_PGT) - 1
  length_PG1 = jnp.sum(valid_PGT, axis=2, keepdims=True)
  part_PGT = (order_PGT * POSITIONS) // jnp.maximum(length_PG1, 1)
  parts = jnp.arange(POSITIONS)[:, None, None, None]
  here = jnp.concatenate([valid_PGT[None], valid_PGT[None] & (part_PGT[None] == parts)])
  value, known = _explained(credit_.targets_PGT, values_PGT, here)
  names = ['critic/explained']
  names += [f'critic/explained_{i + 1}of{POSITIONS}' for i in range(POSITIONS)]
  for i, name in enumerate(names):
    out[name] = types.Mean(jnp.where(known[i], value[i], 0.0), known[i].astype(jnp.float32))
  out['critic/value'] = types.Mean.of(values_PGT, valid_PGT)
  return out


def optimiser(name: str, metrics: types.Metrics, loss, grads, size):
  """Adds loss, gradient norm and update norm of one update.

  Returns:
    (types.Metrics, whether all three are finite, bool []).
  """
  added = {f'loss/{name}': loss, f'grad_norm/{name}': optax.tree.norm(grads),
           f'update_norm/{name}': size}
  finite = jnp.all(jnp.isfinite(jnp.stack(list(added.values()))))
  packed = types.Metrics.pack({k: types.Mean(v, jnp.ones([])) for k, v in added.items()})
  return metrics.join(packed), finite


def gap(first: types.Metrics) -> dict:
  """Largest log-ratio of the first update: trainer against sampler, before anything was learned.

  Without lag it is rounding error, and a larger value means that the two disagree.
  """
  return {'gap/logp': first.unpack()['ratio/log_abs_max']}


def turned(before, now) -> dict:
  """Cosine of a step's policy gradient with that of the step before, where neither is 0.

  Gradients are summed over the updates of a step, before any clipping. Near 0: what one batch asks
  for says nothing about what the next one does; below 0, each step undoes the last.
  """
  product, sizes = optax.tree.vdot(before, now), optax.tree.norm(before) * optax.tree.norm(now)
  known = jnp.isfinite(sizes) & (sizes > 0)
  cosine = jnp.where(known, product / jnp.where(known, sizes, 1.0), 0.0)
  return {'grad/cosine': types.Mean(cosine, known.astype(jnp.float32))}


def _explained(target_PGT, value_PGT, masks):
  """1 - Var(target - value) / Var(target) on each of the masks [M,P,G,T], and whether it varies."""
  error_PGT = target_PGT - value_PGT
  both = jnp.stack([target_PGT, error_PGT])[:, None]
  spread, error = masked.var(jnp.broadcast_to(both, (2, *masks.shape)), masks[None], axis=(2, 3, 4),
                             ddof=0)
  known = spread > 1e-8
  return 1.0 - masked.divide(error, jnp.where(known, spread, 0.0)), known
