"""Checkpoints: the whole train state, bit for bit, or a clear error.

A checkpoint of step n is the folder `step_n`. It is written as `.writing_n` in the background and
renamed when everything is on disk, its manifest last; older ones go only after that. So a kill at
any moment leaves complete folders under final names, and leftovers with a dot, which nobody reads.
The manifest names every leaf with shape and dtype, and every file with size and CRC-32: a restore
compares both before it believes a byte.
"""

import concurrent.futures
import json
import math
import os
import pathlib
import re
import shutil
import sys
from typing import Any

import jax
from jax.experimental import multihost_utils
import jax.numpy as jnp
import numpy as np
from orbax.checkpoint import v1 as ocp

from grpo.learn import distributed
from grpo.learn import manifests

__all__ = ['Checkpointer']

_ARRAYS = 'arrays'


class Checkpointer:
  """Saves and restores train states in one folder.

  Use as a context manager, or call `close` at the end: a save that failed in the background raises
  at the next `save`, `wait`, `restore_latest` or `close`. With several processes, all make the same
  calls.
  """

  def __init__(self, directory: str | os.PathLike, *, keep: int = 2, every: int = 0):
    """Opens (and makes) the folder.

    Args:
      directory: on a file system that all processes share.
      keep: complete checkpoints to keep, at least 1.
      every: steps between two checkpoints, for `due`; 0 for never.
    """
    if keep < 1:
      raise ValueError(f'checkpoint keep must be at least 1, got {keep}')
    if every < 0:
      raise ValueError(f'checkpoint every must be 0 (never) or a number of steps, got {every}')
    self._root = pathlib.Path(directory).absolute()
    try:
      self._root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
      raise ValueError(f'cannot make checkpoint folder {self._root}: {error.strerror}') from error
    self._keep = keep
    self._every = every
    self._last = None  # the step last saved or restored
    self._bad = set()  # steps whose folders could not be read
    self._pool = concurrent.futures.ThreadPoolExecutor(1)
    self._pending = None

  def __enter__(self) -> 'Checkpointer':
    return self

  def __exit__(self, kind, error, trace) -> None:
    self.close()

  def due(self, step: int) -> bool:
    """Whether `every` or more steps have passed since the last checkpoint (or since 0)."""
    return self._every > 0 and step - (self._last or 0) >= self._every

  def save(self, step: int, state: Any, *, meta: dict | None = None) -> None:
    """Starts saving; returns when the state may be donated.

    Args:
      step: larger than that of any checkpoint here. The step last saved or restored is not
        written again.
      state: pytree of arrays, typed keys and None.
      meta: small JSON dictionary, returned by `restore_latest`.
    """
    self.wait()
    if step == self._last:
      return
    newest = max(self._good(), default=-1)
    if newest >= step:
      raise ValueError(f'{self._root} already holds step {newest}: resume from it, or choose '
                       f'another folder, before saving step {step}')
    names, leaves, _ = manifests.flatten(state)
    manifest = dict(step=step, meta=manifests.plain(meta or {}),
                    leaves=manifests.describe(names, leaves))
    arrays = {name: _raw(leaf) for name, leaf in zip(names, leaves, strict=True)
              if manifests.stored(leaf)}
    writing = self._root / f'.writing_{step}'
    if jax.process_index() == 0:
      shutil.rmtree(writing, ignore_errors=True)
      for torn in self._root.glob(f'.writing_{step}.*'):
        shutil.rmtree(torn, ignore_errors=True)
    _barrier(f'checkpoint_{step}')
    try:
      response = ocp.save_async(writing / _ARRAYS, arrays) if arrays else None
    except Exception as error:
      raise RuntimeError(f'saving step {step} in {self._root} failed: {error}') from error
    self._pending = step, self._pool.submit(self._finish, step, writing, response, manifest)
    self._last = step

  def wait(self) -> None:
    """Blocks until the save under way is complete. Raises if it failed."""
    if self._pending is None:
      return
    (step, future), self._pending = self._pending, None
    error = future.exception()
    # Process 0 publishes for all, so nobody goes on before it has, or has failed.
    if distributed.agree(error is not None):
      self._last = None
      raise RuntimeError(f'saving step {step} in {self._root} failed: '
                         f'{error or "see another process"}') from error

  def close(self) -> None:
    """Waits, raises if the last save failed, and ends the background thread."""
    try:
      self.wait()
    finally:
      self._pool.shutdown()

  def steps(self) -> list[int]:
    """Steps of all checkpoints that were completed, oldest first."""
    return self._good()

  def restore_latest(self, target: Any, *, before: float = math.inf
                     ) -> tuple[int, Any, dict] | None:
    """Restores the newest complete checkpoint, or the newest of a step below `before`.

    Args:
      target: pytree of arrays or ShapeDtypeStructs, with the shardings wanted, whatever they were
        when the state was saved. A leaf without one goes to the first device (with several
        processes: a copy to every device).

    Returns:
      (step, state, meta), or None if nothing was ever completed here. Folders that are torn or
      corrupt are skipped, with a line on stderr that names them.

    Raises:
      ValueError: a leaf is missing, left over, or differs in shape or dtype from the target.
      RuntimeError: there are finished checkpoints, and none can be read.
    """
    self.wait()
    finished = []
    for step in reversed([s for s in self._steps() if s < before]):
      path = self._path(step)
      manifest = manifests.read(path)
      fault = manifests.fault(path, manifest)
      if fault is None:
        state = _load(path, manifest, target)
        self._last = step
        return step, state, manifest['meta']
      finished += [path.name] if manifest else []
      self._bad.add(step)
      if jax.process_index() == 0:
        print(f'warning: skipping checkpoint {path}: {fault}', file=sys.stderr, flush=True)
    if finished:
      raise RuntimeError(f'no checkpoint in {self._root} can be read (tried '
                         f'{", ".join(finished)}); move them away to start afresh')
    return None

  def _finish(self, step, writing, response, manifest):
    """Background: waits for the arrays, writes the manifest, renames, then deletes older steps."""
    if response is not None:
      response.result()
    if jax.process_index() != 0:
      return
    writing.mkdir(exist_ok=True)
    files = sorted(p for p in writing.rglob('*') if p.is_file())
    manifest['files'] = {str(p.relative_to(writing)): [p.stat().st_size, manifests.checksum(p)]
                         for p in files}
    with open(writing / manifests.FILE, 'w') as f:
      json.dump(manifest, f)
      f.flush()
      os.fsync(f.fileno())
    path = self._path(step)
    if path.exists():
      self._delete(path)  # torn or corrupt: `save` refuses to replace a complete one
    os.rename(writing, path)
    _sync(self._root)
    self._bad.discard(step)
    kept = self._good()[-self._keep:]
    for old in self._steps():
      if old not in kept:
        self._delete(self._path(old))
    for rest in (*self._root.glob('.writing_*'), *self._root.glob('.deleting_*')):
      shutil.rmtree(rest, ignore_errors=True)

  def _delete(self, path):
    """Renames first, so that a folder under a final name is never half deleted."""
    grave = self._root / f'.deleting_{path.name}'
    shutil.rmtree(grave, ignore_errors=True)
    os.rename(path, grave)
    shutil.rmtree(grave, ignore_errors=True)

  def _steps(self):
    """Steps of all folders under final names, complete or not, in order."""
    found = (re.fullmatch(r'step_(\d+)', p.name) for p in self._root.iterdir())
    return sorted(int(m[1]) for m in found if m)

  def _good(self):
    """Those that are complete, as far as their manifest and the last restore tell."""
    return [s for s in self._steps() if s not in self._bad and manifests.read(self._path(s))]

  def _path(self, step):
    return self._root / f'step_{step}'


def _raw(leaf):
  """What is written: key data, or the array. NumPy's own are copied: they may change meanwhile."""
  if isinstance(leaf, np.ndarray):
    return np.array(leaf)
  return jax.random.key_data(leaf) if manifests.is_key(leaf) else leaf


def _place(name, leaf):
  """Sharding of a restored leaf."""
  sharding = getattr(leaf, 'sharding', None)
  if sharding is None:
    everywhere = jax.sharding.Mesh(np.array(jax.devices()), ('all',))
    sharding = (jax.sharding.SingleDeviceSharding(jax.devices()[0]) if jax.process_count() == 1
                else jax.NamedSharding(everywhere, jax.P()))
  try:
    sharding.shard_shape(tuple(leaf.shape))
  except ValueError as error:
    raise ValueError(f'state{name} {leaf.shape} does not fit its sharding: {error}') from error
  return sharding


def _load(path, manifest, target):
  """State in the structure, types and shardings of the target."""
  saved = manifest['leaves']
  names, leaves, structure = manifests.flatten(target)
  manifests.check(path, saved, names, leaves)
  abstract, places = {}, {}
  for name, leaf in zip(names, leaves, strict=True):
    if not manifests.stored(leaf):
      continue
    if isinstance(leaf, np.ndarray):
      abstract[name] = leaf
      continue
    places[name] = _place(name, leaf)
    raw = jax.eval_shape(jax.random.key_data, leaf) if manifests.is_key(leaf) else leaf
    abstract[name] = jax.ShapeDtypeStruct(raw.shape, raw.dtype, sharding=places[name])
  arrays = ocp.load(path / _ARRAYS, abstract) if abstract else {}
  out = []
  for name, leaf in zip(names, leaves, strict=True):
    if leaf is None:
      out.append(None)
      continue
    x = arrays.get(name)
    if x is None:
      x = np.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, np.ndarray) else _empty(saved[name])
    elif manifests.is_key(leaf):
      x = jax.device_put(jax.random.wrap_key_data(x, impl=saved[name][2]), places[name])
    if manifests.spec(x) != manifests.spec(leaf):
      raise ValueError(f'state{name} came back as {manifests.spec(x)}, not {manifests.spec(leaf)}')
    out.append(x)
  return jax.tree.unflatten(structure, out)


def _empty(entry):
  """An array without elements, from its manifest entry."""
  shape, dtype, *impl = entry
  if not impl:
    return jnp.zeros(shape, dtype)
  one = jax.random.key_data(jax.random.key(0, impl=impl[0]))
  return jax.random.wrap_key_data(jnp.zeros((*shape, *one.shape), one.dtype), impl=impl[0])


def _sync(directory):
  """Makes a rename in the directory survive a power cut."""
  descriptor = os.open(directory, os.O_RDONLY)
  try:
    os.fsync(descriptor)
  finally:
    os.close(descriptor)


def _barrier(name):
  if jax.process_count() > 1:
    multihost_utils.sync_global_devices(name)
