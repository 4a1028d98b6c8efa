"""What a checkpoint says about itself: leaves with shape and dtype, files with size and CRC-32."""

import json
import pathlib
from typing import Any
import zlib

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ['FILE', 'flatten', 'is_key', 'stored', 'spec', 'describe', 'check', 'plain', 'read',
           'fault', 'checksum']

FILE = 'manifest.json'


def flatten(tree: Any) -> tuple[list[str], list, Any]:
  """Names, leaves (None is one) and structure."""
  pairs, structure = jax.tree.flatten_with_path(tree, is_leaf=lambda x: x is None)
  return [jax.tree_util.keystr(path) for path, _ in pairs], [x for _, x in pairs], structure


def is_key(leaf: Any) -> bool:
  """Whether an array, abstract or not, holds typed keys."""
  return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def stored(leaf: Any) -> bool:
  """Whether a leaf has a file: None and empty arrays hold no data; the manifest is enough."""
  return leaf is not None and leaf.size > 0


def spec(leaf: Any) -> list | None:
  """[shape, dtype] of a leaf, abstract or not; None for None."""
  return None if leaf is None else [list(leaf.shape), str(leaf.dtype)]


def describe(names: list[str], leaves: list) -> dict[str, list | None]:
  """Name -> [shape, dtype, key implementation], for the manifest."""
  out = {}
  for name, leaf in zip(names, leaves, strict=True):
    if leaf is not None and not isinstance(leaf, (jax.Array, np.ndarray)):
      raise ValueError(f'state{name} is a {type(leaf).__name__}: only arrays, keys and None can be '
                       'saved without changing type')
    if getattr(leaf, 'weak_type', False):
      raise ValueError(f'state{name} is weakly typed, which a file cannot hold: give it a dtype')
    impl = [str(jax.random.key_impl(leaf))] if leaf is not None and is_key(leaf) else []
    out[name] = None if leaf is None else spec(leaf) + impl
  return out


def check(path: pathlib.Path, saved: dict, names: list[str], leaves: list) -> None:
  """Raises a ValueError naming the first leaf of the target that differs from what was saved."""
  for name, leaf in zip(names, leaves, strict=True):
    if name not in saved:
      raise ValueError(f'checkpoint {path.name} has no leaf state{name}, which the target needs')
    old = saved[name] and saved[name][:2]
    if old != spec(leaf):
      old, new = ('None' if s is None else f'{s[1]}{s[0]}' for s in (old, spec(leaf)))
      raise ValueError(f'state{name} is {old} in checkpoint {path.name} and {new} in the target: '
                       'nothing is cast or reshaped')
  extra = sorted(saved.keys() - set(names))
  if extra:
    raise ValueError(f'checkpoint {path.name} has a leaf state{extra[0]}, which the target lacks')


def plain(meta: dict) -> dict:
  """The dictionary as it will be read back."""
  try:
    return json.loads(json.dumps(meta, allow_nan=False))
  except (TypeError, ValueError) as error:
    raise ValueError(f'checkpoint meta must be plain JSON: {error}') from error


def read(path: pathlib.Path) -> dict | None:
  """Manifest of a checkpoint; None if it is missing or torn."""
  try:
    manifest = json.loads((path / FILE).read_text())
  except (OSError, ValueError):
    return None
  whole = isinstance(manifest, dict) and {'step', 'meta', 'leaves', 'files'} <= manifest.keys()
  return manifest if whole else None


def fault(path: pathlib.Path, manifest: dict | None) -> str | None:
  """What is wrong with the files of a checkpoint; None if nothing is."""
  if manifest is None:
    return 'incomplete, it has no readable manifest'
  for name, (size, crc) in manifest['files'].items():
    file = path / name
    if not file.is_file():
      return f'{name} is missing'
    if file.stat().st_size != size:
      return f'{name} has {file.stat().st_size} bytes instead of {size}'
    if checksum(file) != crc:
      return f'{name} is corrupt'
  return None


def checksum(path: pathlib.Path) -> int:
  """CRC-32 of a file."""
  crc = 0
  with open(path, 'rb') as f:
    while block := f.read(1 << 20):
      crc = zlib.crc32(block, crc)
  return crc
