"""How old a rollout is when it is trained on, if a group waits for its slowest member.

W = 256 workers play without pause. Rollouts are handed out in order, G of one prompt after each
other; a group is finished when all G are, and as soon as groups with 128 rollouts are finished they
are one step of the trainer, which takes no time. The staleness of a rollout is the number of steps
from its start to the step that trains on it. Durations are log-normal with mean 1 and spread sigma
of the logarithm. By Little's law the mean without groups is W / 128 = 2 whatever sigma is.
"""

import heapq
import math

import numpy as np

WORKERS, BATCH = 256, 128
STEPS = dict(smoke=60, small=600, full=6000)
WARMUP = 40  # steps before the queue has forgotten how it began
SIGMAS, GROUPS = (0.0, 0.5, 1.0, 1.5), (1, 2, 4, 8, 16)


def simulate(group: int, sigma: float, *, steps: int, seed: int = 0) -> np.ndarray:
  """Staleness of every rollout trained on after the warm-up, int [N]."""
  rng = np.random.default_rng([seed, group, int(100 * sigma)])
  count = (steps + WARMUP) * BATCH + 4 * WORKERS * group
  durations = np.exp(sigma * rng.standard_normal(count) - sigma**2 / 2)
  began = np.zeros(count, np.int64)        # step that was current at the start
  left = np.full(count // group + 1, group)
  # Workers start at different times, else all of a batch would end at once when sigma is 0.
  running = [(durations[i] * rng.random(), i) for i in range(WORKERS)]
  heapq.heapify(running)
  following, step, ready, ages = WORKERS, 0, [], []
  while step < steps + WARMUP:
    now, rollout = heapq.heappop(running)
    mine = rollout // group
    left[mine] -= 1
    if left[mine] == 0:
      ready.append(mine)
      if len(ready) * group >= BATCH:
        if step >= WARMUP:
          ages += [step - began[g * group:(g + 1) * group] for g in ready]
        ready, step = [], step + 1
    began[following] = step
    heapq.heappush(running, (now + durations[following], following))
    following += 1
  return np.concatenate(ages)


def slowest(group: int, sigma: float, *, samples: int = 20_000, seed: int = 0) -> float:
  """E[max of G durations] / mean of one."""
  rng = np.random.default_rng([seed, group, int(100 * sigma), 1])
  draws = np.exp(sigma * rng.standard_normal((samples, group)) - sigma**2 / 2)
  return float(draws.max(axis=1).mean())


def rows(size: str, progress) -> list[dict]:
  """Rows of results.csv: one for each sigma and G. `se` is that of the mean over steps."""
  made, total = [], len(SIGMAS) * len(GROUPS)
  for sigma in SIGMAS:
    for group in GROUPS:
      age_N = simulate(group, sigma, steps=STEPS[size])
      parts = age_N.reshape(STEPS[size] // 20, -1).mean(axis=1)  # 20 steps each: nearly independent
      made.append(dict(
          sigma=sigma, group=group, mean=age_N.mean(), p95=np.quantile(age_N, 0.95),
          se=parts.std(ddof=1) / math.sqrt(len(parts)), slowest=slowest(group, sigma)))
      progress(len(made), total)
  return made
