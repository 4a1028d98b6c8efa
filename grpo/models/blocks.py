"""The layers of a decoder, as NNX modules that never leave this folder.

Modules say which parameters exist and how a layer uses them. Everything outside sees nested dicts
of arrays: `create` makes one, `bind` puts one back behind its module.
"""

from collections.abc import Callable
import math

from flax import nnx
import jax
import jax.numpy as jnp

from grpo.models import attention

__all__ = ['Linear', 'Norm', 'Attention', 'Mlp', 'Block', 'create', 'bind', 'each', 'flags',
           'stack', 'unstack']


def create(module: Callable, key) -> dict:
  """Parameters of a fresh `module(draw=draw)` as a nested dict of arrays.

  `draw(shape)` hands out standard normal numbers. All come from one long vector: programs that draw
  each weight by itself take seconds to compile.
  """
  size = 0

  def count(shape):
    nonlocal size
    size += math.prod(shape)
    return jnp.zeros(shape)

  jax.eval_shape(lambda: nnx.split(module(draw=count))[1])
  numbers, taken = jax.random.normal(key, (size,)), 0

  def draw(shape):
    nonlocal taken
    low, taken = taken, taken + math.prod(shape)
    return numbers[low:taken].reshape(shape)

  return nnx.to_pure_dict(nnx.split(module(draw=draw))[1])


def bind(module: Callable) -> Callable:
  """(params) -> module with those parameters. The structure is worked out once, here."""
  graph, _ = nnx.split(nnx.eval_shape(lambda: module(draw=jnp.zeros)))
  return lambda params: nnx.merge(graph, params)


class Linear(nnx.Module):
  """x @ kernel (+ bias) (+ adapter), weights in float32 and multiplied in the dtype of x."""

  def __init__(self, inputs: int, outputs: int, *, draw, scale: float = 1.0, bias: bool = False,
               rank: int = 0, weight: float = 0.0):
    self.kernel = nnx.Param(scale * inputs ** -0.5 * draw((inputs, outputs)))
    self.biased, self.rank, self.weight = bias, rank, weight
    if bias:
      self.bias = nnx.Param(jnp.zeros((outputs,), jnp.float32))
    if rank:
      self.adapter_in = nnx.Param(inputs ** -0.5 * draw((inputs, rank)))
      self.adapter_out = nnx.Param(jnp.zeros((rank, outputs), jnp.float32))

  def __call__(self, x):
    # As products of two matrices. A gradient that sums over several axes at once, with seeds in
    # front, takes twice as long on a CPU.
    flat = x.reshape(-1, x.shape[-1])
    out = flat @ self.kernel[...].astype(x.dtype)
    if self.biased:
      out = out + self.bias[...].astype(x.dtype)[None]
    if self.rank:
      narrow = flat @ self.adapter_in[...].astype(x.dtype)
      out = out + narrow @ (self.weight * self.adapter_out[...]).astype(x.dtype)
    return out.reshape(*x.shape[:-1], -1)


def _linear(shape, name: str, inputs: int, outputs: int, **how) -> Linear:
  """A projection of a layer, with what the shape says of it."""
  weight = shape.alpha / shape.rank if shape.rank else 0.0
  return Linear(inputs, outputs, bias=name in shape.bias, rank=shape.rank, weight=weight, **how)


class Norm(nnx.Module):
  """Root-mean-square norm over the last axis, in float32. arXiv:1910.07467"""

  def __init__(self, width: int, eps: float):
    self.scale = nnx.Param(jnp.ones((width,), jnp.float32))
    self.eps = eps

  def __call__(self, x):
    wide = x.astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + self.eps)
    scale = jnp.expand_dims(self.scale[...], range(x.ndim - 1))
    return (wide * inverse * scale).astype(x.dtype)


class Attention(nnx.Module):
  """Grouped-query attention with rotary positions; optional norm of each query and key head."""

  def __init__(self, shape, *, draw):
    queries, stored = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    self.shape = shape
    self.norm = Norm(shape.hidden, shape.norm_eps)
    self.query = _linear(shape, 'query', shape.hidden, queries, draw=draw)
    self.key = _linear(shape, 'key', shape.hidden, stored, draw=draw)
    self.value = _linear(shape, 'value', shape.hidden, stored, draw=draw)
    self.output = _linear(shape, 'output', queries, shape.hidden, draw=draw,
                         scale=(2 * shape.layers) ** -0.5)
    if shape.qk_norm:
      self.query_norm = Norm(shape.head_dim, shape.norm_eps)
      self.key_norm = Norm(shape.head_dim, shape.norm_eps)
    if shape.sandwich:
      self.after = Norm(shape.hidden, shape.norm_eps)

  def __call__(self, x_PNWD, cos_sin, attend):
    shape = self.shape
    P, N, W = x_PNWD.shape[:3]
    x_PNWD = self.norm(x_PNWD)
    heads = lambda x, repeat: x.reshape(P, N, W, shape.kv_heads, repeat, shape.head_dim)
    repeat = shape.heads // shape.kv_heads
    queries = heads(self.query(x_PNWD), repeat)
    stored, values = heads(self.key(x_PNWD), 1), heads(self.value(x_PNWD), 1)
    if shape.qk_norm:
      queries, stored = self.query_norm(queries), self.key_norm(stored)
    if shape.score_scale:  # attention multiplies by head_dim ** -0.5
      queries = queries * jnp.asarray(shape.score_scale * shape.head_dim ** 0.5, queries.dtype)
    queries, stored, values = (
        jnp.transpose(x, (0, 3, 1, 4, 2, 5)) for x in (queries, stored, values))
    queries = attention.rotate(queries, cos_sin)
    stored = attention.rotate(stored, cos_sin)
    mixed, kept = attend(queries, stored[:, :, :, 0], values[:, :, :, 0])
    mixed = jnp.transpose(mixed, (0, 2, 4, 1, 3, 5)).reshape(P, N, W, -1)
    mixed = self.output(mixed)
    return self.after(mixed) if shape.sandwich else mixed, kept


class Mlp(nnx.Module):
  """SwiGLU, down(silu(gate(x)) * up(x)), or GeGLU with gelu in its place. arXiv:2002.05202"""

  def __init__(self, shape, *, draw):
    self.activation = jax.nn.silu if shape.activation == 'silu' else jax.nn.gelu
    self.norm = Norm(shape.hidden, shape.norm_eps)
    self.gate = _linear(shape, 'gate', shape.hidden, shape.mlp, draw=draw)
    self.up = _linear(shape, 'up', shape.hidden, shape.mlp, draw=draw)
    self.down = _linear(shape, 'down', shape.mlp, shape.hidden, draw=draw,
                       scale=(2 * shape.layers) ** -0.5)
    self.sandwich = shape.sandwich
    if shape.sandwich:
      self.after = Norm(shape.hidden, shape.norm_eps)

  def __call__(self, x):
    x = self.norm(x)
    x = self.down(self.activation(self.gate(x)) * self.up(x))
    return self.after(x) if self.sandwich else x


class Block(nnx.Module):
  """One layer. `attend(queries, keys, values)` decides what is seen, and what is kept of it."""

  def __init__(self, shape, *, draw):
    self.attention = Attention(shape, draw=draw)
    self.mlp = Mlp(shape, draw=draw)

  def __call__(self, x_PNWD, cos_sin, attend):
    mixed, kept = self.attention(x_PNWD, cos_sin, attend)
    x_PNWD = x_PNWD + mixed
    return x_PNWD + self.mlp(x_PNWD), kept


def stack(layers: dict) -> dict:
  """Parameters of layers {'0': .., '1': ..} as one dict of stacked arrays, as `scan` wants them."""
  return jax.tree.map(lambda *x: jnp.stack(x), *(layers[str(i)] for i in range(len(layers))))


def unstack(layers: dict) -> dict:
  """Inverse of `stack`."""
  count = jax.tree.leaves(layers)[0].shape[0]
  return {str(i): jax.tree.map(lambda x, i=i: x[i], layers) for i in range(count)}


def flags(shape):
  """Which layers are local, bool [layers]."""
  return jnp.asarray([i in shape.local for i in range(shape.layers)])


def each(shape, bound, params, x, extras, run):
  """Runs the layers in turn: run(block, x, extra of that layer, whether it is local) -> (x, kept).

  `local` is a bool, or, with `scan` and where layers differ in it, a traced one.
  """
  step = lambda x, layer, extra, local: run(bound(layer), x, extra, local)
  flagged = shape.scan and shape.local
  if shape.remat:
    step = jax.checkpoint(step, static_argnums=() if flagged else (3,))
  if flagged:
    return jax.lax.scan(lambda x, xs: step(x, *xs), x, (params['layers'], extras, flags(shape)))
  if shape.scan:
    return jax.lax.scan(lambda x, xs: step(x, *xs, False), x, (params['layers'], extras))
  kept = []
  for i in range(shape.layers):
    extra = None if extras is None else tuple(part[i] for part in extras)
    x, new = step(x, params['layers'][str(i)], extra, i in shape.local)
    kept.append(new)
  return x, None if kept[0] is None else jax.tree.map(lambda *leaves: tuple(leaves), *kept)
