"""Advantages of rollouts that share prefixes: more of the slot `advantages`.

The samples of a prompt are the leaves of one or several trees (`rollout/branch.py`).
`context.node_PGK` says on which node a chunk lies: samples with the same node at the same chunk
index took the same actions up to there. A chunk must not reach across a fork, and its return is
that of the whole trajectory (`outcome`). Every leaf carries its whole path, so the tokens of a
shared node are in as many rows as there are leaves below it, and the loss counts each.
"""

import jax
import jax.numpy as jnp

from grpo import masked
from grpo.objective import advantages
from grpo.objective.context import Context

__all__ = ['shared_prefix', 'tree_grpo', 'treerl', 'spo_tree']


def shared_prefix(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
                  ddof: int = 1, eps: float = 1e-6, tol: float = 1e-5) -> jax.Array:
  """Group z-scores; a shared chunk gets the mean over the leaves that share it, [P,G,K].

  A_k = mean_{leaves of node(k)} A. Dong et al. 2025, arXiv:2507.19849 (ARPO), section 3.2, hard
  advantage estimation. The soft form, each leaf keeping its own, is `group_zscore`: the shared
  tokens' gradients add up to the same.
  """
  a_PGK = advantages.group_zscore(returns_PGK, valid_PGK, context, over='sequence', ddof=ddof,
                                  eps=eps, tol=tol)
  return node_mean(a_PGK, valid_PGK, context)


def node_mean(x_PGK: jax.Array, valid_PGK: jax.Array, context: Context) -> jax.Array:
  """Mean of x over the samples that share the chunk, [P,G,K]."""
  same_PGGK = _same(valid_PGK, context, 'shared_prefix')
  return masked.clean(_node_mean(x_PGK, same_PGGK), valid_PGK)


def tree_grpo(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
              eps: float = 1e-6, tol: float = 1e-5) -> jax.Array:
  """z-score among the leaves of the tree, plus that among all leaves of the prompt, [P,G,K].

  A = A^intra + A^inter, each (R - mean) / (std + eps) with divisor n - 1. Ji et al. 2025,
  arXiv:2509.21240 (Tree-GRPO), section 3.3. A tree is what shares its first chunk; one leaf alone
  has A^intra = 0.
  """
  inter_PGK = advantages.group_zscore(returns_PGK, valid_PGK, context, over='sequence', eps=eps,
                                      tol=tol)
  same_PGG1 = _same(valid_PGK, context, 'tree_grpo')[..., :1]
  leaf_PG1 = masked.mean(returns_PGK, valid_PGK, axis=2, keepdims=True)
  leaf_PGG1 = jnp.broadcast_to(leaf_PG1[:, None], same_PGG1.shape)
  std_PG1 = masked.std(leaf_PGG1, same_PGG1, axis=2, ddof=1)
  size_PG1 = masked.high(jnp.abs(leaf_PGG1), same_PGG1, axis=2)
  flat_PG1 = masked.spread_range(leaf_PGG1, same_PGG1, axis=2) <= tol * size_PG1
  flat_PG1 = flat_PG1 | (std_PG1 == 0)
  centred_PGK = returns_PGK - masked.mean(leaf_PGG1, same_PGG1, axis=2)
  intra_PGK = jnp.where(flat_PG1, 0.0, centred_PGK / jnp.where(flat_PG1, 1.0, std_PG1 + eps))
  return masked.clean(intra_PGK, valid_PGK) + inter_PGK


def treerl(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *, power: float = 0.5,
           tol: float = 1e-5) -> jax.Array:
  """Global plus local advantage of the node, [P,G,K].

  A = ((V(s) - V(root)) + (V(s) - V(parent))) / leaves(s)^power, where V is the mean over the leaves
  below a node of R minus the mean of the other leaves. Hou et al. 2025, arXiv:2506.11902 (TreeRL),
  section 3.3. The division takes back some of the weight of tokens that many leaves carry: by the
  square root, as the released code has it (`sqrt` style).
  """
  loo_PGK = advantages.leave_one_out(returns_PGK, valid_PGK, context, over='sequence', tol=tol)
  same_PGGK = _same(valid_PGK, context, 'treerl')
  node_PGK, parent_PGK, root_P1K = _values(loo_PGK, valid_PGK, same_PGGK)
  leaves_PGK = jnp.maximum(masked.count(same_PGGK, axis=2, dtype=returns_PGK.dtype), 1.0)
  a_PGK = (node_PGK - root_P1K) + (node_PGK - parent_PGK)
  return masked.clean(a_PGK / leaves_PGK ** power, valid_PGK)


def spo_tree(returns_PGK: jax.Array, valid_PGK: jax.Array, context: Context, *,
             tol: float = 1e-5) -> jax.Array:
  """Value of the node minus that of its parent, [P,G,K]: A = V(node) - V(parent).

  V is the mean return of the leaves below. Guo et al. 2025, arXiv:2505.23564 (SPO), section 3.3,
  tree form, without the division by the siblings' std and without the mask of likely tokens, which
  could not be checked.
  """
  node_PGK, parent_PGK, _ = _values(returns_PGK, valid_PGK, _same(valid_PGK, context, 'spo_tree'))
  a_PGK = node_PGK - parent_PGK
  flat_P1K = advantages.is_flat(returns_PGK, valid_PGK, over='pooled', tol=tol)
  return masked.clean(jnp.where(flat_P1K, 0.0, a_PGK), valid_PGK)


def _same(valid_PGK, context, name):
  """Whether two samples are on one node, [P,G,G,K]; a group is small."""
  if context.node_PGK is None:
    raise ValueError(f'advantages.{name}: needs rollouts that share prefixes; set method.branch')
  node_PGK = context.node_PGK
  return ((node_PGK[:, :, None] == node_PGK[:, None])
          & valid_PGK[:, :, None] & valid_PGK[:, None])


def _node_mean(x_PGK, same_PGGK):
  return masked.mean(jnp.broadcast_to(x_PGK[:, None], same_PGGK.shape), same_PGGK, axis=2)


def _values(x_PGK, valid_PGK, same_PGGK):
  """Mean over the leaves below: of the chunk's node, of its parent, and of the root [P,1,K]."""
  node_PGK = masked.clean(_node_mean(x_PGK, same_PGGK), valid_PGK)
  # Every chunk of a row carries the same x; the first is valid wherever the row is.
  root_P11 = masked.mean(x_PGK[..., :1], valid_PGK[..., :1], axis=1, keepdims=True)
  first_PGK = jnp.broadcast_to(root_P11, node_PGK[..., :1].shape)
  parent_PGK = jnp.concatenate([first_PGK, node_PGK[..., :-1]], axis=2)
  return node_PGK, parent_PGK, root_P11
