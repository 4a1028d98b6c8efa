"""Optimiser updates: minibatches of prompts, micro-batches inside them, one clip, one step.

A loss is sum(weights * x) over its data, and the weights are counted over a whole optimiser batch,
so its gradient is the plain sum over micro-batches: splitting changes no result. Minibatches are
strided over prompts, so that every device of a mesh holds an equal part of each; groups are never
split.
"""

import re

import jax
import jax.numpy as jnp
import optax

from grpo import types

__all__ = ['split', 'gradient', 'apply', 'freeze', 'sweep']


def split(data, parts: int):
  """Leaves [P, ...] to [parts, P / parts, ...]: part i holds prompts i, i + parts, ..."""
  return jax.tree.map(
      lambda x: jnp.swapaxes(x.reshape(x.shape[0] // parts, parts, *x.shape[1:]), 0, 1), data)


def gradient(loss, params, data, micro: int):
  """Gradient of a summed loss, taken over `micro` parts of the data one after the other.

  Args:
    loss: (params, data) -> (scalar, dict of types.Mean and types.Peak).
    params: pytree.
    data: pytree with leading axis P, divisible by micro.
    micro: number of parts.

  Returns:
    (gradients, loss, types.Metrics).
  """
  def packed(params, data):
    value, metrics = loss(params, data)
    return value, types.Metrics.pack(metrics)

  grad = jax.value_and_grad(packed, has_aux=True)
  if micro == 1:
    (value, metrics), grads = grad(params, data)
    return grads, value, metrics

  def body(total, part):
    (value, metrics), grads = grad(params, part)
    return jax.tree.map(jnp.add, total, grads), (value, metrics)

  zeros = jax.tree.map(jnp.zeros_like, params)
  grads, (values, metrics) = jax.lax.scan(body, zeros, split(data, micro))
  return grads, jnp.sum(values), metrics.merge()


def freeze(grads, word: str):
  """Zeroes the gradients of parameters whose path contains `word`; an empty word freezes none.

  A model of one array, as the table of `models/tabular.py`, has no parts: it is trained whole.

  Raises:
    ValueError: no path of several contains the word.
  """
  if not word:
    return grads
  paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(grads)]
  if len(paths) > 1 and not any(word in path for path in paths):
    known = sorted({part for path in paths for part in re.findall(r'[A-Za-z_]\w*', path)})
    raise ValueError(f'method.critic.freeze={word!r}: no parameter of the critic has it in its '
                     f'path; the words there are {", ".join(known)}')
  def one(path, g):
    return jnp.zeros_like(g) if word in jax.tree_util.keystr(path) else g
  return jax.tree_util.tree_map_with_path(one, grads)


def apply(optimiser, params, opt_state, grads, ok):
  """One optimiser step, which happens only where `ok` is true and the update is finite.

  Returns:
    (params, opt_state, norm of the update).
  """
  updates, new_state = optimiser.update(grads, opt_state, params)
  norm = optax.tree.norm(updates)
  ok = ok & jnp.isfinite(norm)
  new_params = optax.apply_updates(params, updates)
  keep = lambda new, old: jnp.where(ok, new, old)
  return jax.tree.map(keep, new_params, params), jax.tree.map(keep, new_state, opt_state), norm


def sweep(update, carry, data, *, minibatches: int, passes: int):
  """Runs `update` over the minibatches of `data`, `passes` times.

  Args:
    update: (carry, minibatch) -> (carry, types.Metrics).
    carry: pytree.
    data: pytree with leading axis P.
    minibatches: optimiser updates a pass.
    passes: epochs.

  Returns:
    (carry, metrics merged over all updates, metrics of the first update).
  """
  if minibatches * passes == 1:
    carry, metrics = update(carry, data)
    return carry, metrics, metrics
  parts = split(data, minibatches)
  if passes == 1:
    carry, metrics = jax.lax.scan(update, carry, parts)
  else:
    one_pass = lambda carry, _: jax.lax.scan(update, carry, parts)
    carry, metrics = jax.lax.scan(one_pass, carry, None, length=passes)
    flat = lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
    metrics = jax.tree.map(flat, metrics)
  return carry, metrics.merge(), jax.tree.map(lambda x: x[0], metrics)
