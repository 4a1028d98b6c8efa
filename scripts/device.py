"""Sets JAX up for a command: a persistent compilation cache, and quicker compiling on a CPU."""

import gc
import importlib.util
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
  _compile_quickly()
  # Tracing makes many objects, and most of them stay: fewer searches among them for those that do
  # not make it faster by a sixth.
  gc.set_threshold(100_000, 20, 100)
  folder = cache_dir() / 'compiled'
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError:
    return
  jax.config.update('jax_compilation_cache_dir', str(folder))
  # Small programs are most of a CPU experiment, and each takes a second or more to compile.
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.2)
  jax.config.update('jax_persistent_cache_min_entry_size_bytes', 0)


def _compile_quickly() -> None:
  """Asks jax 0.10 for its older emitters where only a CPU can be used.

  They compiled the small programs here in half the time, and steps took as long as before. Later
  versions have none. How much a program is optimised is decided in `grpo/learn/compiling.py`.
  """
  plugins = ('jax_cuda12_plugin', 'jax_cuda13_plugin', 'jax_rocm7_plugin', 'libtpu')
  cpu = os.environ.get('JAX_PLATFORMS', '') == 'cpu' or not any(
      importlib.util.find_spec(name) for name in plugins)
  flags = os.environ.get('XLA_FLAGS', '')
  if cpu and jax.__version_info__ < (0, 11) and 'fusion_emitters' not in flags:
    os.environ['XLA_FLAGS'] = f'{flags} --xla_cpu_use_fusion_emitters=false'.strip()
