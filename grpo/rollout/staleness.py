"""The delay line: rollouts wait before they are trained on.

The line is part of the state, so asynchrony is exact and repeatable: what leaves it carries the
version and the log-probs of the policy that sampled it. Two kinds:

* a ring, for a constant lag: each batch waits `lag` steps;
* a pool, for random durations: every step P groups begin with the weights of that step, and the P
  groups that are done first, of all that are being played, are trained on. The trainer waits for
  the last of them; then time goes on from there.

As many groups go in as come out, so the mean staleness is the number of batches in the pool
(Little's law). With W workers for each rollout of a batch a single rollout is W steps old. A group
occupies its workers only while members play, so more groups are under way the longer the slowest
member takes: the pool holds lag * E[slowest of G] / E[one] batches, rounded, `lag` being that of
single rollouts.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from grpo import types
from grpo.rollout import delays

__all__ = ['Pool', 'line', 'exchange', 'batches', 'pace']

_FORGET = 0.05  # weight of the newest step in the pool's pace


@types.pytree
class Pool:
  """Groups that are being played."""
  rollout: types.Rollout  # [N,G,...]
  left: jax.Array         # f32 [N]; time until the slowest member is done; inf: an empty place
  pace: jax.Array         # f32 []; time that a step takes, a mean of some twenty; 0 at the start


def line(shapes, lag: int, group: int, delay: Mapping[str, Any]):
  """An empty ring or pool, or None for a lag of 0.

  Args:
    shapes: types.Rollout [P,G,...] of jax.ShapeDtypeStruct.
    lag: steps that a single rollout waits.
    group: G.
    delay: the slot of that name, with the spread `sigma` of a law that has one.
  """
  if lag == 0:
    return None
  zeros = lambda *lead: jax.tree.map(lambda x: jnp.zeros((*lead, *x.shape), x.dtype), shapes)
  if delay['name'] == 'constant':
    return zeros(lag)
  flat = lambda x: x.reshape(-1, *x.shape[2:])
  rollout = jax.tree.map(flat, zeros(batches(lag, group, delay['sigma'])))
  return Pool(rollout, jnp.full(rollout.success.shape[0], jnp.inf), jnp.zeros([]))


def batches(lag: int, group: int, sigma: float) -> int:
  """Batches that are under way if single rollouts are `lag` steps old on average."""
  return max(1, round(lag * delays.slowest(group, sigma)))


def exchange(waiting, fresh, step, durations_PG=None):
  """Puts a fresh batch into the line and takes out the one whose time has come.

  Until the line is full nothing has waited long enough: what leaves is all zeros, its mask is
  empty, and the step trains on nothing. `ready` says so.

  Args:
    waiting: what `line` makes.
    fresh: types.Rollout [P,G,...], sampled at `step`.
    step: int32 [].
    durations_PG: f32, how long each takes to play; for a pool.

  Returns:
    (what waits now, rollout to train on, ready bool []).
  """
  if waiting is None:
    return None, fresh, jnp.asarray(True)
  if isinstance(waiting, Pool):
    return _first_done(waiting, fresh, durations_PG)
  lag = jax.tree.leaves(waiting)[0].shape[0]
  place = step % lag
  old = jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, place, 0, keepdims=False),
                     waiting)
  waiting = jax.tree.map(lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y, place, 0),
                         waiting, fresh)
  return waiting, old, step >= lag


def pace(waiting):
  """Mean time that passes in a step, or None for a line in which no time passes."""
  return waiting.pace if isinstance(waiting, Pool) else None


def _first_done(pool, fresh, durations_PG):
  """Takes the P groups with the least time left, of those in the pool and the fresh ones."""
  N, P = pool.left.shape[0], durations_PG.shape[0]
  left_M = jnp.concatenate([pool.left, jnp.max(durations_PG, axis=1)])
  full = jnp.all(jnp.isfinite(pool.left))
  version_M = jnp.concatenate([pool.rollout.version[:, 0], fresh.version[:, 0]])
  # While there are empty places these are what is taken, and fresh groups get them. Of equals the
  # oldest goes first.
  order_M = jnp.lexsort((version_M, jnp.where(full, left_M, jnp.isfinite(left_M))))
  taken_P = order_M[:P]
  passed = jnp.where(full, jnp.max(left_M[taken_P]), 0.0)

  stays_P = ~jnp.any(taken_P[None] == N + jnp.arange(P)[:, None], axis=1)
  source_P = jnp.argsort(~stays_P, stable=True)
  # As many places are free as fresh groups stay; the rest points behind the end and is dropped.
  place_P = jnp.sort(jnp.where(taken_P < N, taken_P, N + jnp.arange(P)))

  def pick(old, new):
    here = jnp.expand_dims(taken_P < N, range(1, new.ndim))
    return jnp.where(here, old[jnp.minimum(taken_P, N - 1)], new[jnp.maximum(taken_P - N, 0)])

  out = jax.tree.map(pick, pool.rollout, fresh)
  put = lambda old, new: old.at[place_P].set(new[source_P], mode='drop', unique_indices=True)
  left = put(pool.left, left_M[N:]) - passed
  pace = jnp.where(pool.pace > 0, pool.pace + _FORGET * (passed - pool.pace), passed)
  pace = jnp.where(full, pace, pool.pace)
  return Pool(jax.tree.map(put, pool.rollout, fresh), left, pace), out, full
