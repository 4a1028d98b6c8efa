"""Rollouts that share prefixes: which sample follows which, and for how many turns.

A branch is made by shared choices: until it forks, a sample repeats the tokens, log-probs and noise
of its leader in the same batch; from the fork on it has streams of its own. That is a
continuation from a restored state of task and window, exactly, and needs no state to be stored.
The prefix is computed once more for each follower, and the counters count it.

The slot `branch` of a config. A function maps (group, turns) to a Plan, or to None.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from grpo import types

__all__ = ['none', 'tree', 'monte_carlo']


@dataclasses.dataclass(frozen=True)
class Plan:
  """Samples of a prompt and their leaders. Static.

  Attributes:
    lineage_KG: int32 [turns, rows]; the sample whose action a row takes at a turn. At most its own
      index, and its own leader.
    kept: rows that are trained on, the first ones.
    continuations: M, rows for each kept one and boundary, behind the kept; 0 for none.
    every: turns from one boundary to the next.
  """
  lineage_KG: np.ndarray
  kept: int
  continuations: int = 0
  every: int = 1

  @property
  def rows(self) -> int:
    """Samples of a prompt that are played."""
    return self.lineage_KG.shape[1]

  @property
  def nodes_KG(self) -> np.ndarray:
    """Leaders of the kept rows: samples with the same one share the turn."""
    return self.lineage_KG[:, :self.kept]


def none(*, group: int, turns: int) -> None:
  """Independent samples."""
  del group, turns


def tree(*, group: int, turns: int, trees: int = 2, width: int = 2, every: int = 1) -> Plan:
  """`trees` trees whose nodes split into `width` after every `every` turns, until `group` leaves.

  Tree-GRPO, arXiv:2509.21240; TreeRL, arXiv:2506.11902; SPO, arXiv:2505.23564. Forks are at fixed
  turns. The papers place some of them by entropy.
  """
  levels, leaves = 0, trees
  while leaves < group and width > 1:
    levels, leaves = levels + 1, leaves * width
  if leaves != group or trees < 1:
    raise ValueError(f'method.branch=tree: sample.group={group} must be trees={trees} times a '
                     f'power of width={width}')
  if every < 1 or levels * every >= turns:
    raise ValueError(f'method.branch=tree: forks at turn {levels * every}, and episodes have '
                     f'{turns} turns: lower every, raise trees or play longer episodes')
  row_G, lineage_KG = np.arange(group), np.zeros((turns, group), np.int32)
  for k in range(turns):
    below = group // (trees * width ** min(k // every, levels))
    lineage_KG[k] = row_G // below * below
  return Plan(lineage_KG, group)


def monte_carlo(*, group: int, turns: int, samples: int, every: int = 1) -> Plan:
  """Each of `group` samples, and `samples` continuations from each `every`-th of its turns.

  VinePPO, arXiv:2410.01679, section 4; SPO, arXiv:2505.23564, chain form.
  """
  if samples < 1 or every < 1:
    raise ValueError(f'method.branch=monte_carlo: samples={samples} and every={every} must be at '
                     'least 1')
  starts = range(0, turns, every)
  rows = group * (1 + len(starts) * samples)
  own_R = np.arange(rows, dtype=np.int32)
  start_R = np.concatenate([np.zeros(group, int), np.repeat(starts, samples * group)])
  follows_KR = np.arange(turns)[:, None] < start_R[None]
  return Plan(np.where(follows_KR, own_R % group, own_R).astype(np.int32), group, samples, every)


def kept(plan: Plan | None, rollout: types.Rollout) -> types.Rollout:
  """The samples that are trained on, [P,G,...]."""
  return rollout if plan is None else jax.tree.map(lambda x: x[:, :plan.kept], rollout)


def values(plan: Plan, rollout: types.Rollout) -> jax.Array:
  """Monte-Carlo value before each turn, on the turn's tokens; f32 [P,G,T], 0 off the mask.

  V(s_k) = mean over the M continuations from turn k of their rewards from turn k on, without
  discount. All rows of `rollout` are read. Turns between two boundaries get the earlier one's.
  """
  return _on_tokens(plan, rollout, jnp.mean(_to_go(plan, rollout), axis=2))


def errors(plan: Plan, rollout: types.Rollout) -> jax.Array:
  """Standard error of `values`, std over the continuations / sqrt(M); needs M of at least 2."""
  if plan.continuations < 2:
    raise ValueError('branch.errors: a standard error needs at least 2 continuations of a turn, '
                     f'got {plan.continuations}')
  spread_PBG = jnp.std(_to_go(plan, rollout), axis=2, ddof=1)
  return _on_tokens(plan, rollout, spread_PBG / plan.continuations ** 0.5)


def _to_go(plan, rollout):
  """Rewards of each continuation from its boundary on, [P,B,M,G]."""
  turn_PRT, reward_PRT = types.stream(rollout.turn), types.stream(rollout.rewards)
  P, _, T = turn_PRT.shape
  parts = lambda x_PRT: x_PRT[:, plan.kept:].reshape(P, -1, plan.continuations, plan.kept, T)
  turn_PBMGT, reward_PBMGT = parts(turn_PRT), parts(reward_PRT)
  start_B = plan.every * jnp.arange(turn_PBMGT.shape[1])
  later_PBMGT = turn_PBMGT >= start_B[None, :, None, None, None]
  return jnp.sum(jnp.where(later_PBMGT, reward_PBMGT, 0.0), axis=4)


def _on_tokens(plan, rollout, x_PBG):
  """A number of each boundary on the tokens of the turns that follow it, [P,G,T]."""
  x_PGB = jnp.moveaxis(x_PBG, 1, 2)
  turn_PGT = types.stream(rollout.turn)[:, :plan.kept]
  x_PGT = jnp.take_along_axis(x_PGB, jnp.maximum(turn_PGT, 0) // plan.every, axis=2)
  return jnp.where(types.stream(rollout.mask)[:, :plan.kept], x_PGT, 0.0)
