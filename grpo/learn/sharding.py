"""Where arrays live: a mesh of `data` x `model`, prompts over `data`, parameters by shape.

Everything here is layout: with any mesh the numbers are those of one device, up to the order of
sums. Groups are never split, and neither are samples, stream positions or chunks.
"""

from collections.abc import Sequence
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType

from grpo.types import Rollout

__all__ = ['TENSOR', 'make_mesh', 'replicated', 'over_prompts', 'state_shardings',
           'rollout_shardings', 'check_prompts', 'check_model']

# Tensor parallelism: the axis of a weight, counted from the end, that is split over `model` when
# its path matches. Projections into heads or the hidden layer are split by output, those out of
# them by input, so that one sum over `model` ends each block; tables by vocabulary. Weights are
# [in, out].
TENSOR = (
    (r'attention/(query|key|value)/kernel$', -1),
    (r'attention/output/kernel$', -2),
    (r'mlp/(gate|up)/kernel$', -1),
    (r'mlp/down/kernel$', -2),
    (r'embed/embedding$', -2),
    (r'head/kernel$', -1),
)


def make_mesh(data: int = -1, model: int = 1, *,
              devices: Sequence | None = None) -> jax.sharding.Mesh:
  """Mesh with axes `data` and `model`, both Auto.

  Args:
    data: size of the axis that prompts and parameters are split over; -1 for all devices left.
    model: size of the axis of tensor parallelism.
    devices: those to use; all by default, in which case a smaller mesh takes the first ones.
  """
  devices = list(jax.devices() if devices is None else devices)
  if model < 1 or (data < 1 and data != -1):
    raise ValueError(f'mesh sizes must be positive (data may be -1), got data={data} model={model}')
  if data == -1:
    if len(devices) % model:
      raise ValueError(f'mesh model={model} does not divide the {len(devices)} devices')
    data = len(devices) // model
  if data * model > len(devices):
    raise ValueError(f'mesh data={data} model={model} needs {data * model} devices, '
                     f'there are {len(devices)}')
  if data * model < len(devices) and jax.process_count() > 1:
    raise ValueError(f'mesh data={data} model={model} uses {data * model} of {len(devices)} '
                     'devices: with several processes it must use all')
  return jax.make_mesh((data, model), ('data', 'model'), axis_types=(AxisType.Auto,) * 2,
                       devices=devices[:data * model])


def replicated(mesh: jax.sharding.Mesh) -> jax.NamedSharding:
  """A copy on every device."""
  return jax.NamedSharding(mesh, jax.P())


def over_prompts(mesh: jax.sharding.Mesh, axis: int = 0) -> jax.NamedSharding:
  """Axis `axis` over `data`, all others whole."""
  return jax.NamedSharding(mesh, jax.P(*(None,) * axis, 'data'))


def check_prompts(prompts: int, mesh: jax.sharding.Mesh, *, minibatches: int = 1) -> None:
  """Raises unless each minibatch gives every `data` slice the same number of whole groups."""
  data = mesh.shape['data']
  if prompts % (data * minibatches):
    parts = f' x minibatches={minibatches}' if minibatches > 1 else ''
    raise ValueError(f'prompts={prompts} must be divisible by mesh data={data}{parts}: '
                     'groups are never split')


def rollout_shardings(rollout: Rollout, mesh: jax.sharding.Mesh) -> Rollout:
  """Shardings of a Rollout, concrete or abstract: its P axis over `data`, nothing else.

  P is found from the right ([.., P, G] and [.., P, G, S, L]), so leading axes of seeds or of slots
  in a delay line stay whole.
  """
  axis = rollout.success.ndim - 2
  check_prompts(rollout.success.shape[axis], mesh)
  return jax.tree.map(lambda _: over_prompts(mesh, axis), rollout)


def state_shardings(state: Any, mesh: jax.sharding.Mesh, *, seeds: bool = False,
                    min_size: int = 4096, tensor: Sequence[tuple[str, int]] = TENSOR) -> Any:
  """Shardings of a train state, leaf by leaf, for `jit` and for a restore.

  A float array of at least `min_size` elements is split: over `model` by the first pattern of
  `tensor` that its path matches, then its largest remaining axis that divides over `data`.
  Moments of an optimiser carry path and shape of their parameter, hence its sharding. Rollouts
  inside the state (the delay line) are split by prompts. Keys, counters and small arrays are
  replicated: splitting those costs more in messages than it saves in memory.

  Args:
    state: pytree of arrays or ShapeDtypeStructs.
    mesh: from `make_mesh`.
    seeds: whether every leaf has a leading axis of seeds, which is never split.
    min_size: elements, per seed.
    tensor: (pattern, axis) pairs; the pattern is searched in the path, such as
      'params/layers/0/attention/query/kernel', the axis counts from the end.

  Returns:
    The same structure with NamedShardings.
  """
  def place(path, leaf):
    if isinstance(leaf, Rollout):
      return rollout_shardings(leaf, mesh)
    spec = _spec(jax.tree_util.keystr(path, simple=True, separator='/'), leaf.shape[int(seeds):],
                 leaf.dtype, mesh, min_size, tensor)
    return jax.NamedSharding(mesh, jax.P(*(None,) * int(seeds), *spec) if spec else jax.P())

  return jax.tree.map_with_path(place, state, is_leaf=lambda x: isinstance(x, Rollout))


def check_model(places: Any, mesh: jax.sharding.Mesh) -> None:
  """Raises if devices were asked for along `model` and no array of these shardings is split there.

  Such a mesh would do the same work on each of them.
  """
  model = mesh.shape['model']
  named = (name for place in jax.tree.leaves(places) for name in place.spec)
  if model > 1 and 'model' not in named:
    raise ValueError(f'mesh.model={model} splits nothing of this model: weights below 4096 '
                     'elements stay whole, others need a width that it divides; use mesh.model=1')


def _spec(path, shape, dtype, mesh, min_size, tensor):
  """Mesh axis (or None) of each array axis; empty if replicated."""
  if math.prod(shape) < min_size or not jnp.issubdtype(dtype, jnp.inexact):
    return []
  spec = [None] * len(shape)
  if mesh.shape['model'] > 1:
    for pattern, axis in tensor:
      if re.search(pattern, path) and -axis <= len(shape):
        if shape[axis] % mesh.shape['model'] == 0:
          spec[axis] = 'model'
        break
  if mesh.shape['data'] > 1:
    free = [i for i, n in enumerate(shape) if spec[i] is None and n % mesh.shape['data'] == 0]
    if free:
      spec[max(free, key=lambda i: shape[i])] = 'data'
  return spec if any(spec) else []
