"""Sets JAX up for a command: a persistent compilation cache, and a hint for small CPU programs."""

import os
import pathlib

import jax

__all__ = ['prepare', 'cache_dir']


def cache_dir() -> pathlib.Path:
  """Folder of compiled programs: GRPO_CACHE, or a user cache folder."""
  base = os.environ.get('GRPO_CACHE')
  if base:
    return pathlib.Path(base)
  home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
  return pathlib.Path(home) / 'grpo'


def prepare() -> None:
  """Call before the first array is made. A cache that cannot be written is left out."""
  folder = cache_dir() / 'compiled'
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError:
    return
  jax.config.update('jax_compilation_cache_dir', str(folder))
  # Small programs are most of a CPU experiment, and each takes a second or more to compile.
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.2)
  jax.config.update('jax_persistent_cache_min_entry_size_bytes', 0)
