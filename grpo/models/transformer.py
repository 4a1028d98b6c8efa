"""A decoder-only transformer in the shape of Llama and Qwen3, as a Policy and as a Critic.

Norm before each sub-layer, rotary positions, grouped-query attention, SwiGLU, no biases, optional
norm of query and key heads; what other families do differently, models/arch.py says. Parameters are
a nested dict with string keys:

  embed/embedding [V,D]   layers/<i>/attention/{norm,query,key,value,output,query_norm,key_norm}
  norm/scale [D]          layers/<i>/mlp/{norm,gate,up,down}        head/kernel [D,V] if untied

With `scan=True` the layers are stacked instead: layers/attention/query/kernel is [layers,D,..].
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from grpo import keys
from grpo import masked
from grpo import types
from grpo import writes
from grpo.models import arch
from grpo.models import attention
from grpo.models import base
from grpo.models import blocks
from grpo.models import places

# Up to this many tokens a table is read by a product: the gradient of a gather is a scatter, which
# a CPU does one row after the other.
_ONE_HOT = 512

__all__ = ['Shape', 'policy', 'critic', 'stack', 'unstack']

Shape = arch.Shape
stack, unstack = blocks.stack, blocks.unstack  # layers apart <-> layers stacked, for `scan`


@types.pytree
class Prefix:
  """What is remembered of a prompt. Keys [P,H,D,J] and values [P,H,J,D] of each layer."""
  keys: Any
  values: Any
  valid: jax.Array  # bool [P,J]
  last: jax.Array   # [P,D], state after the last prompt token


@types.pytree
class Cache:
  """Room for the tokens of rows: closed blocks, which are only read, and one open block.

  Keys [P,H,N,D,J] and values [P,H,N,J,D] of each layer, valid [P,N,J].
  """
  closed_keys: Any
  closed_values: Any
  closed_valid: jax.Array
  keys: Any
  values: Any
  valid: jax.Array
  count: jax.Array  # int32 [P,N], valid tokens read so far


def _trunk(shape: Shape):
  """The functions that the policy and the critic share."""
  bound = blocks.bind(functools.partial(blocks.Block, shape))
  norm = blocks.bind(lambda draw: blocks.Norm(shape.hidden, shape.norm_eps))
  dtype = jnp.dtype(shape.dtype)

  def init(key):
    layer = lambda i: blocks.create(functools.partial(blocks.Block, shape),
                                    keys.stream(key, 'layer', i))
    layers = jax.vmap(layer)(jnp.arange(shape.layers))
    size = shape.vocab * shape.hidden
    table = 0.02 * jax.random.normal(keys.stream(key, 'embed'), (size,))
    return {'embed': {'embedding': table.reshape(shape.vocab, shape.hidden)},
            'layers': layers if shape.scan else blocks.unstack(layers),
            'norm': {'scale': jnp.ones((shape.hidden,), jnp.float32)}}

  def embed(params, tokens):
    table = params['embed']['embedding']
    if shape.vocab <= _ONE_HOT:
      table = table.astype(dtype)
      x = jax.nn.one_hot(tokens, shape.vocab, dtype=dtype) @ table
    else:
      x = jnp.take(table, tokens, axis=0, mode='clip').astype(dtype)
    return x if shape.embed_scale == 1 else x * jnp.asarray(shape.embed_scale, dtype)

  def final(params, x):
    return norm(params['norm'])(x)

  def prefill(params, tokens_PL, valid_PL):
    valid_PNW = valid_PL[:, None]
    nothing_P1 = jnp.zeros((tokens_PL.shape[0], 1), jnp.int32)
    turns = places.turns(shape, valid_PNW, nothing_P1, tokens_PL.shape[1])

    def run(block, x, _, local):
      window = places.window(shape, local)
      reach = None if window is None else (window, turns[0], None)

      def attend(queries, stored, values):
        mixed = attention.causal(queries, stored, values, valid_PNW, None, reach)
        return mixed, (jnp.swapaxes(stored[:, :, 0], -1, -2), values[:, :, 0])
      return block(x, places.turned(turns, local), attend)

    x, (stored, values) = blocks.each(shape, bound, params, embed(params, tokens_PL[:, None]), None,
                                      run)
    return Prefix(stored, values, valid_PL, final(params, x[:, 0, -1]))

  def forward(params, prefix, tokens_PNW, valid_PNW):
    before_P1, remembered = jnp.zeros((tokens_PNW.shape[0], 1), jnp.int32), None
    limit, places_PJ = tokens_PNW.shape[2], None
    if prefix is not None:
      places_PJ = places.prompt(shape, prefix.valid)
      limit += prefix.valid.shape[1]
      before_P1 = masked.count(prefix.valid, axis=1, keepdims=True, dtype=jnp.int32)
      remembered = prefix.keys, prefix.values
    turns = places.turns(shape, valid_PNW, before_P1, limit)

    def run(block, x, extra, local):
      window = places.window(shape, local)
      reach = None if window is None else (window, turns[0], places_PJ)

      def attend(queries, stored, values):
        prompt = None if prefix is None else attention.shared(*extra, prefix.valid)
        return attention.causal(queries, stored, values, valid_PNW, prompt, reach), None
      return block(x, places.turned(turns, local), attend)

    x, _ = blocks.each(shape, bound, params, embed(params, tokens_PNW), remembered, run)
    return final(params, x)

  def start(params, prefix, rows, length, cache=None):
    del params
    prompts = prefix.valid.shape[0]
    lead = (prompts, shape.kv_heads, rows)
    empty = lambda *tail: (
        jnp.zeros((shape.layers, *lead, *tail), dtype) if shape.scan
        else tuple(jnp.zeros((*lead, *tail), dtype) for _ in range(shape.layers)))
    fresh = lambda n: (empty(shape.head_dim, n), empty(n, shape.head_dim),
                       jnp.zeros((prompts, rows, n), bool))
    if cache is None:
      closed, count = fresh(0), jnp.zeros((prompts, rows), jnp.int32)
    else:
      join = lambda axis: lambda a, b: jnp.concatenate([a, b], axis=axis)
      closed = (jax.tree.map(join(-1), cache.closed_keys, cache.keys),
                jax.tree.map(join(-2), cache.closed_values, cache.values),
                join(-1)(cache.closed_valid, cache.valid))
      count = cache.count
    return Cache(*closed, *fresh(length), count)

  def extend(params, prefix, cache, tokens_PNW, valid_PNW, index):
    slot = index - cache.closed_valid.shape[-1]
    before_P1 = masked.count(prefix.valid, axis=1, keepdims=True, dtype=jnp.int32)
    limit = prefix.valid.shape[1] + cache.closed_valid.shape[-1] + cache.valid.shape[-1]
    turns = places.turns(shape, valid_PNW, before_P1 + cache.count, limit)
    valid_PNJ = writes.put(cache.valid, valid_PNW, 0, 0, slot)
    width, room = tokens_PNW.shape[2], valid_PNJ.shape[2]
    order_WJ = jnp.arange(room)[None, :] <= (slot + jnp.arange(width))[:, None]
    visible_PNWJ = valid_PNJ[:, :, None, :] & order_WJ[None, None]
    closed_PN1J = cache.closed_valid[:, :, None, :]
    places_PNJ = places.cached(shape, prefix.valid, cache.closed_valid, valid_PNJ)

    def run(block, x, extra, write, local):
      window = places.window(shape, local)

      def attend(queries, stored, values):
        all_keys, all_values, kept = write(jnp.swapaxes(stored, -1, -2), values)
        parts = [attention.shared(*extra[:2], prefix.valid)]
        if closed_PN1J.shape[-1]:
          parts.append(attention.stored(*extra[2:], closed_PN1J))
        parts.append(attention.stored(all_keys, all_values, visible_PNWJ))
        if window is not None:
          parts = [attention.within(part, turns[0], keys_PNJ, window)
                   for part, keys_PNJ in zip(parts, places_PNJ, strict=True)]
        return attention.attend(queries, parts), kept
      return block(x, places.turned(turns, local), attend)

    read = (prefix.keys, prefix.values, cache.closed_keys, cache.closed_values)
    x = embed(params, tokens_PNW)
    if shape.scan:
      # The cache is carried and written in place; as a scanned input it would be copied each token.
      def body(carry, xs):
        x, all_keys, all_values, i = carry
        local = xs[-1] if shape.local else False

        def write(new_keys, new_values):
          keys_ = writes.put(all_keys, new_keys[None], i, 0, 0, 0, 0, slot)
          values_ = writes.put(all_values, new_values[None], i, 0, 0, 0, slot, 0)
          return keys_[i], values_[i], (keys_, values_)

        x, kept = run(bound(xs[0]), x, xs[1:5], write, local)
        return (x, *kept, i + 1), None

      carry = (x, cache.keys, cache.values, jnp.int32(0))
      flags = (blocks.flags(shape),) if shape.local else ()
      (x, new_keys, new_values, _), _ = jax.lax.scan(body, carry, (params['layers'], *read, *flags))
    else:
      def step(block, x, extra, local):
        def write(keys_, values_):
          keys_ = writes.put(extra[4], keys_, 0, 0, 0, 0, slot)
          values_ = writes.put(extra[5], values_, 0, 0, 0, slot, 0)
          return keys_, values_, (keys_, values_)
        return run(block, x, extra[:4], write, local)

      x, (new_keys, new_values) = blocks.each(dataclasses.replace(shape, remat=False), bound,
                                              params, x, (*read, cache.keys, cache.values), step)
    count = cache.count + masked.count(valid_PNW, axis=2, dtype=jnp.int32)
    return final(params, x), dataclasses.replace(
        cache, keys=new_keys, values=new_values, valid=valid_PNJ, count=count)

  return init, prefill, forward, start, extend


def _flops(shape: Shape):
  """FLOPs of a forward pass, one multiply-add being 2; see `policy`."""
  width = shape.heads * shape.head_dim
  layer = (2 * shape.hidden * (width + shape.kv_heads * shape.head_dim)
           + 3 * shape.hidden * shape.mlp)

  def flops(prompt_tokens, row_tokens, context, head: int = shape.vocab):
    read = prompt_tokens + row_tokens
    return (2.0 * shape.layers * (layer + 2 * width * context) * read
            + 2.0 * shape.hidden * head * row_tokens)
  return flops


def policy(shape: Shape) -> base.Policy:
  """The decoder as a policy.

  flops(prompt_tokens, row_tokens, context): `prompt_tokens` are read, `row_tokens` are read and
  scored, `context` is the mean number of keys (itself included) that a read token attends to.
  With B weights per layer, width Q = heads * head_dim and N = layers,
  flops = 2 N (B + 2 Q context) (prompt_tokens + row_tokens) + 2 D V row_tokens.
  """
  init_trunk, prefill, forward, start, extend = _trunk(shape)

  def init(key):
    params = init_trunk(key)
    if not shape.tied:
      head = functools.partial(blocks.Linear, shape.hidden, shape.vocab,
                               scale=0.02 * shape.hidden ** 0.5)
      params['head'] = blocks.create(head, keys.stream(key, 'head'))
    return params

  def logits(params, hidden):
    kernel = params['embed']['embedding'].T if shape.tied else params['head']['kernel']
    return jnp.matmul(hidden, kernel.astype(hidden.dtype), preferred_element_type=jnp.float32)

  def head(params):
    return params['embed']['embedding'] if shape.tied else params['head']['kernel'].T

  return base.Policy(init=init, prefill=prefill, forward=forward, start=start, extend=extend,
                     logits=logits, vocab=shape.vocab, flops=_flops(shape), head=head)


def critic(shape: Shape) -> base.Critic:
  """The same decoder with a scalar head, which starts at 0: a fresh critic says 0 everywhere.

  flops: as for the policy, with a head of one output.
  """
  init_trunk, prefill, forward, _, _ = _trunk(shape)

  def init(key):
    value = {'kernel': jnp.zeros((shape.hidden, 1), jnp.float32),
             'bias': jnp.zeros((1,), jnp.float32)}
    return init_trunk(key) | {'value': value}

  def graft(params, policy_params):
    return {name: params[name] if name == 'value' else policy_params[name] for name in params}

  def read(params, hidden):
    value = params['value']
    return (hidden.astype(jnp.float32) @ value['kernel'])[..., 0] + value['bias'][0]

  def states(params, prompt_PL, valid_PL, tokens_PNW, valid_PNW):
    prefix, before_PN1 = None, jnp.zeros((*tokens_PNW.shape[:2], 1), jnp.float32)
    if prompt_PL is not None:
      prefix = prefill(params, prompt_PL, valid_PL)
      before_PN1 = jnp.broadcast_to(read(params, prefix.last)[:, None, None], before_PN1.shape)
    after_PNW = read(params, forward(params, prefix, tokens_PNW, valid_PNW))
    return jnp.concatenate([before_PN1, after_PNW], axis=-1)

  flops = functools.partial(_flops(shape), head=1)
  return base.Critic(init=init, graft=graft, states=states, flops=flops)
