"""Bytes that a run of a language model needs, from the shape of the model alone.

Nothing is computed or compiled: sizes are those of the arrays that the functions of a run would
make. What the backward pass needs is what JAX keeps between the two passes of an update, so it
counts remat and the type of products. A compiler may add to that (scratch space) or save (fusion):
tests/footprint_test.py and docs/llm_size.csv hold it against compiled programs.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
from jax.extend import core
import jax.numpy as jnp

from grpo import types
from grpo.models import adapters
from grpo.models import arch
from grpo.models import scoring
from grpo.models import transformer

__all__ = ['Footprint', 'footprint', 'saved', 'update']


@dataclasses.dataclass(frozen=True)
class Footprint:
  """Bytes of the parts of a run, but for `trained`."""
  trained: int      # numbers that are trained
  weights: int      # frozen ones in the type of products, trained ones in float32
  optimiser: int    # two float32 numbers for each trained one
  gradients: int    # one float32 number for each trained one
  activations: int  # what an update keeps of one micro-batch for its backward pass
  cache: int        # keys and values while a batch is sampled; prompts are kept once a group

  @property
  def peak(self) -> int:
    """Of a step: an update and sampling do not overlap."""
    return self.weights + self.optimiser + max(self.gradients + self.activations, self.cache)


def footprint(shape: arch.Shape, layout: types.Layout, *, prompts: int, group: int,
              micro: int) -> Footprint:
  """Footprint of a run without a critic and with a reference that costs nothing.

  Args:
    shape: with a rank above 0 adapters are trained, and all weights without.
    layout: windows of a rollout.
    prompts: prompts whose groups are sampled at once.
    group: rollouts of each.
    micro: prompts of a micro-batch.
  """
  params, base = _abstract(shape)
  trained = sum(x.size for x in jax.tree.leaves(params))
  frozen = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(base))
  policy = _policy(shape, base)
  tokens = jax.ShapeDtypeStruct((prompts, layout.prompt), jnp.int32)
  prefix = jax.eval_shape(lambda p, b, t: _policy(shape, b).prefill(p, t, t >= 0), params, base,
                          tokens)
  cache = jax.eval_shape(
      lambda p, x: policy.start(p, x, group, layout.length - layout.prompt), params, prefix)
  size = lambda tree: sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))
  return Footprint(
      trained=trained, weights=4 * trained + frozen, optimiser=8 * trained, gradients=4 * trained,
      activations=_activations(shape, layout, prompts=micro, group=group),
      cache=size((prefix, cache)))


def update(shape: arch.Shape, layout: types.Layout, *, prompts: int, group: int):
  """(gradient of a sum of log-probabilities, its abstract arguments), of one micro-batch."""
  def gradient(params, base, rows):
    loss = lambda params: jnp.sum(_logp(shape, layout, base, params, rows))
    return jax.grad(loss)(params)
  return gradient, (*_abstract(shape), _rows(layout, prompts, group))


@functools.lru_cache(maxsize=64)
def saved(shape: arch.Shape, layout: types.Layout, *, prompts: int, group: int) -> int:
  """Bytes kept for the backward pass of a micro-batch, arguments of the program not counted."""
  def kept(params, base, rows):
    scored = lambda params: _logp(shape, layout, base, params, rows)
    return jax.tree.leaves(jax.vjp(scored, params)[1])

  program = jax.make_jaxpr(kept)(*_abstract(shape), _rows(layout, prompts, group)).jaxpr
  given = {id(x) for x in (*program.invars, *program.constvars)}
  found = {id(x): x.aval for x in program.outvars if isinstance(x, core.Var) and id(x) not in given}
  return sum(math.prod(x.shape) * x.dtype.itemsize for x in found.values())


def _activations(shape, layout, **rows):
  """What is alive at most: with remat, also what one layer that is computed again keeps."""
  kept = saved(shape, layout, **rows)
  if not shape.remat:
    return kept
  plain = saved(dataclasses.replace(shape, remat=False), layout, **rows)
  return kept + plain // shape.layers


def _abstract(shape: arch.Shape) -> tuple[Any, Any]:
  """Trained and frozen parameters, shapes and types only; None where nothing is frozen."""
  init = transformer.policy(dataclasses.replace(shape, rank=0)).init
  whole = jax.eval_shape(init, jax.random.key(0))
  if not shape.rank:
    return whole, None
  base = jax.eval_shape(functools.partial(adapters.frozen, shape), whole)
  return jax.eval_shape(adapters.policy(shape, None).init, jax.random.key(0)), base


def _policy(shape, base):
  return adapters.policy(shape, base) if shape.rank else transformer.policy(shape)


def _rows(layout, prompts, group):
  of = lambda dtype: jax.ShapeDtypeStruct((prompts, group, layout.segments, layout.length), dtype)
  return scoring.Rows(tokens=of(jnp.int32), valid=of(bool), mask=of(bool))


def _logp(shape, layout, base, params, rows):
  return scoring.score(_policy(shape, base), params, rows, layout, 1.0, bonus=False)[0]
