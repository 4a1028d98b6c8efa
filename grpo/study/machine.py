"""What this machine can do, and how much of it is ours: the yardstick of every speed figure.

A ratio to a rate measured in the same process survives a change of machine; a time doesn't.
"""

import os
import resource
import sys
import time

import jax
import jax.numpy as jnp

__all__ = ['matmul_gflops', 'bandwidth_gb_s', 'process_age', 'peak_rss_mib', 'Share']

_IMPORTED = time.perf_counter()


def best_seconds(call, seconds: float) -> float:
  """Shortest wall time of one `call`, repeated for `seconds`. A limit, so the best is wanted."""
  jax.block_until_ready(call())
  best, end = float('inf'), time.perf_counter() + seconds
  while time.perf_counter() < end:
    start = time.perf_counter()
    jax.block_until_ready(call())
    best = min(best, time.perf_counter() - start)
  return best


def matmul_gflops(size: int = 1024, seconds: float = 1.0, dtype: str = 'float32') -> float:
  """Rate of a square matrix product, GFLOP/s; a multiply-add counts 2."""
  key_a, key_b = jax.random.split(jax.random.key(0))
  a = jax.random.normal(key_a, (size, size), dtype)
  b = jax.random.normal(key_b, (size, size), dtype)
  product = jax.jit(jnp.matmul)
  return 2 * size ** 3 / best_seconds(lambda: product(a, b), seconds) / 1e9


def bandwidth_gb_s(mib: int = 256, seconds: float = 1.0) -> float:
  """Rate of a + 1.5 b into the memory of a, GB/s: two reads and one write.

  The array is donated, since the kernel zeroes fresh pages and that would be what is measured.
  """
  size = mib * 2 ** 20 // 4
  triad = jax.jit(lambda a, b: a + 1.5 * b, donate_argnums=0)
  hold = [jnp.ones(size, jnp.float32)]
  b = jnp.ones(size, jnp.float32)

  def call():
    hold[0] = triad(hold[0], b)
    return hold[0]

  return 3 * 4 * size / best_seconds(call, seconds) / 1e9


def process_age() -> float:
  """Seconds since this process started; without /proc, since this module was imported."""
  try:
    with open('/proc/self/stat', encoding='ascii') as file:
      started = int(file.read().rsplit(')', 1)[1].split()[19])
    with open('/proc/uptime', encoding='ascii') as file:
      return float(file.read().split()[0]) - started / os.sysconf('SC_CLK_TCK')
  except OSError:
    return time.perf_counter() - _IMPORTED


def peak_rss_mib() -> float:
  """Largest resident memory of this process so far, MiB."""
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  return peak / (2 ** 20 if sys.platform == 'darwin' else 2 ** 10)


class Share:
  """How busy other processes kept the machine since the last call.

  A figure that was taken while others computed is not one: on two cores, one busy neighbour
  doubles a time. `CLEAN` is the largest share of others under which a step counts.
  """
  CLEAN = 0.08

  def __init__(self):
    self._last = self._now()

  def _now(self):
    try:
      with open('/proc/stat', encoding='ascii') as file:
        ticks = [int(x) for x in file.readline().split()[1:9]]
    except OSError:
      return None
    scale = os.sysconf('SC_CLK_TCK')
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / scale, sum(ticks) / scale, time.process_time()

  def take(self) -> float:
    """Share of all cores used by others, 0..1; 0 where the system does not tell."""
    now, last = self._now(), self._last
    self._last = now
    if now is None or last is None:
      return 0.0
    busy, total, own = (a - b for a, b in zip(now, last, strict=True))
    return max(0.0, busy - own) / max(total, 1e-9)
