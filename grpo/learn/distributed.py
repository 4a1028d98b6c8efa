"""Several processes, one program: joining, agreeing, and bringing arrays to the host."""

import os
from typing import Any

import jax
from jax.experimental import multihost_utils
import numpy as np

__all__ = ['initialize', 'is_main', 'place', 'gather', 'agree']


def initialize(coordinator: str | None = None, processes: int | None = None,
               index: int | None = None) -> bool:
  """Joins the other processes, if there are any. Call before anything touches a device.

  Args:
    coordinator: host:port of process 0; JAX_COORDINATOR_ADDRESS by default.
    processes: how many; JAX_NUM_PROCESSES by default.
    index: which one this is, from 0; JAX_PROCESS_ID by default.

  Returns:
    Whether there are several processes.
  """
  coordinator = coordinator or os.environ.get('JAX_COORDINATOR_ADDRESS')
  processes = _number(processes, 'JAX_NUM_PROCESSES')
  index = _number(index, 'JAX_PROCESS_ID')
  given = (coordinator, processes, index)
  if all(x is None for x in given):
    return False
  if any(x is None for x in given):
    raise ValueError('several processes need all of JAX_COORDINATOR_ADDRESS (host:port), '
                     f'JAX_NUM_PROCESSES and JAX_PROCESS_ID, got {given}')
  if not 0 <= index < processes:
    raise ValueError(f'process index must be in 0 .. {processes - 1}, got {index}')
  if processes == 1:
    return False
  jax.distributed.initialize(coordinator, processes, index)
  return True


def is_main() -> bool:
  """Whether this process logs and writes files."""
  return jax.process_index() == 0


def place(tree: Any, shardings: Any) -> Any:
  """Host arrays, the same in every process, to global arrays with these shardings."""
  def put(x, sharding):
    x = np.asarray(x)
    return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])
  return jax.tree.map(put, tree, shardings)


def gather(tree: Any) -> Any:
  """Global arrays to whole NumPy arrays on the host, in every process.

  All processes have to call it. Typed keys come back as their data.
  """
  def whole(x):
    x = jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x
    if isinstance(x, jax.Array) and not (x.is_fully_addressable or x.is_fully_replicated):
      x = jax.device_put(x, jax.NamedSharding(x.sharding.mesh, jax.P()))
    return x
  return jax.device_get(jax.tree.map(whole, tree))


def agree(flag: bool) -> bool:
  """Whether the flag is set in any process: a stop has to fall on the same step everywhere."""
  if jax.process_count() == 1:
    return bool(flag)
  return bool(np.any(multihost_utils.process_allgather(np.asarray(bool(flag)))))


def _number(value, name):
  if value is not None or name not in os.environ:
    return value
  try:
    return int(os.environ[name])
  except ValueError as error:
    raise ValueError(f'{name} must be a whole number, got {os.environ[name]!r}') from error
