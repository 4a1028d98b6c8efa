"""Low-rank adapters on a frozen base: what is trained is small, the base is shared by all.

Hu et al. 2021, arXiv:2106.09685: y = x W + (alpha / r) x A B, with A [in, r] random and B [r, out]
0 at the start, so that the first policy is the base itself. The trained parameters are the tree of
the adapters alone, {'layers': {.. {'adapter_in', 'adapter_out'}}}; the frozen ones are those of
transformer.py, and are an argument of a program, not part of its state. A critic has adapters of
its own on the same base, and a value head.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp

from grpo.models import arch
from grpo.models import base
from grpo.models import transformer

__all__ = ['policy', 'critic', 'join', 'frozen', 'merged']

_WORD = 'adapter_'


def join(frozen, trained):
  """One tree of two that have no leaf in common."""
  if not isinstance(frozen, dict):
    return frozen
  both = frozen | trained
  return both | {k: join(frozen[k], trained[k]) for k in frozen.keys() & trained.keys()}


def frozen(shape: arch.Shape, params):
  """The base as a program takes it: matrices in the type of the products, the rest as it is."""
  wide = lambda path: path[-1].key not in ('kernel', 'embedding')
  return jax.tree_util.tree_map_with_path(
      lambda path, x: x if wide(path) else jnp.asarray(x, shape.dtype), params)


def merged(shape: arch.Shape, base_params, trained):
  """Weights of the model without adapters that computes the same: W + (alpha / r) A B."""
  if not isinstance(base_params, dict):
    return base_params
  out = {k: merged(shape, x, trained.get(k, {})) for k, x in base_params.items()}
  if f'{_WORD}in' in trained:
    change = jnp.matmul(trained[f'{_WORD}in'], trained[f'{_WORD}out'])  # also of stacked layers
    out['kernel'] = jnp.asarray(out['kernel'], jnp.float32) + shape.alpha / shape.rank * change
  return out


def policy(shape: arch.Shape, base_params) -> base.Policy:
  """The decoder whose parameters are adapters on `base_params` (None: only its sizes are used)."""
  inner = transformer.policy(shape)
  whole = _whole(base_params)
  return dataclasses.replace(
      inner,
      init=lambda key: _init(inner, key),
      prefill=lambda params, *x: inner.prefill(whole(params), *x),
      forward=lambda params, *x: inner.forward(whole(params), *x),
      start=lambda params, *x: inner.start(None, *x),
      extend=lambda params, *x: inner.extend(whole(params), *x),
      logits=lambda params, hidden: inner.logits(whole(params), hidden),
      head=lambda params: inner.head(whole(params)))


def critic(shape: arch.Shape, base_params) -> base.Critic:
  """A critic with adapters of its own on the same base, and a head that starts at 0."""
  inner = transformer.critic(shape)
  whole = _whole(base_params)

  def init(key):
    value = {'kernel': jnp.zeros((shape.hidden, 1)), 'bias': jnp.zeros((1,))}
    return _init(inner, key) | {'value': value}

  return dataclasses.replace(
      inner, init=init, states=lambda params, *x: inner.states(whole(params), *x))


def _whole(base_params):
  def whole(params):
    if base_params is None:
      raise ValueError('adapters: this program was given no base')
    return join(base_params, params)
  return whole


def _init(inner, key):
  """Fresh adapters, drawn from one long vector: see blocks.create."""
  shapes = {'layers': jax.eval_shape(inner.init, key)['layers']}
  leaves = [(path, x) for path, x in jax.tree_util.tree_leaves_with_path(shapes)
            if path[-1].key.startswith(_WORD)]
  numbers = jax.random.normal(key, (sum(
      x.size for path, x in leaves if path[-1].key.endswith('in')),))
  out, taken = {}, 0
  for path, x in leaves:
    node = out
    for part in path[:-1]:
      node = node.setdefault(part.key, {})
    if path[-1].key.endswith('in'):
      value = numbers[taken:taken + math.prod(x.shape)].reshape(x.shape) * x.shape[-2] ** -0.5
      taken += x.size
    else:
      value = jnp.zeros(x.shape, jnp.float32)
    node[path[-1].key] = value
  return out
