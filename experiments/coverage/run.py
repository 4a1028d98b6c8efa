"""How often a group says anything, and whether a critic learns where groups say nothing.

A task of H decisive turns, each right with probability q: success p = q^H. A group of n episodes
is informative if some solve it and some do not,

    P_sig(n) = 1 - p^n - (1 - p)^n.

Part 'share' compares that with groups played in the `horizon` task. Part 'size' is the smallest n
with P_sig >= 0.5. Part 'learn' starts from one logit a turn at q = 0.9 and trains on the
same number of rollouts by groups of 8, with std and without, and by single rollouts with a critic,
which may see failures ('seen') or not ('hidden'); its value is learned, a number a turn. Part
'snr' is one decisive step whose q differs between prompts, q ~ Beta(1, 1): signal to noise of one
batch of 128 rollouts as 16 groups of 8, as 128 prompts with exact values, or with the mean of the
batch as the baseline.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.study import chains
from grpo.study import oracle
from grpo.tasks import horizon as task_lib

GROUPS = dict(smoke=64, small=512, full=20_000)
SHARES = ((0.9, 10), (0.9, 30), (0.9, 100), (0.95, 100), (0.99, 100))
# Arm -> estimator; the values of a critic are learned, whatever the catalogue calls them.
ARMS = {'group': 'group z-score (GRPO)', 'group, no std': 'group mean (Dr. GRPO)',
        'critic, hidden': 'exact critic, lambda 0.95', 'critic, seen': 'exact critic, lambda 0.95'}
HORIZONS = dict(smoke=(10,), small=(10, 30, 100), full=(10, 30, 100))
STEPS, SEEDS = dict(smoke=20, small=150, full=1500), dict(smoke=2, small=8, full=32)
BATCHES = dict(smoke=100, small=400, full=4000)
ROWS, GROUP, RATE, VALUE_RATE = 64, 8, 2.0, 0.1
SNR = {'GRPO, 16 x 8': ('group z-score (GRPO)', 16, 8),
       'exact values, 128 x 1': ('exact critic, lambda 1', 128, 1),
       'batch mean, 128 x 1': ('batch mean', 128, 1)}


def informative(p: float, n: int) -> float:
  """P_sig(n) of a prompt that is solved with probability p."""
  return 1.0 - p**n - (1.0 - p) ** n


def needed(p: float, share: float = 0.5) -> int:
  """Smallest n with P_sig(n) >= share."""
  low, high = 1, 2
  while informative(p, high) < share:
    low, high = high, 2 * high
  while high - low > 1:
    middle = (low + high) // 2
    low, high = (low, middle) if informative(p, middle) >= share else (middle, high)
  return high


@functools.cache
def _play(turns: int):
  """(keys [N,n], q) -> success [N,n] of episodes of the task in which every turn decides."""
  task = task_lib.make(actions=2, max_turns=turns)
  knobs = task.knobs | dict(decisive=turns)

  def episode(key, right):
    def turn(state, i):
      probs = oracle.mixture(2, right)(state)
      action = jax.random.uniform(keys.stream(key, 'act', i)) < probs[1]
      out = task.step(state, 1 + action.astype(jnp.int32)[None], jnp.ones(1, bool), knobs)
      return out.state, out.success

    state, *_ = task.reset(key, knobs)
    return jax.lax.scan(turn, state, jnp.arange(turns))[1][-1]

  return jax.jit(jax.vmap(jax.vmap(episode, (0, None)), (0, None)))


def measured(right: float, turns: int, groups: int, seed: int = 0) -> tuple[float, float]:
  """Share of informative groups of 8 that were played, with its standard error."""
  solved = np.asarray(_play(turns)(keys.grid(keys.root(seed), groups, GROUP), right))
  share = float(np.mean(solved.max(axis=1) > solved.min(axis=1)))
  return share, math.sqrt(max(share * (1 - share), 1 / groups) / groups)


def learn(arm: str, turns: int, steps: int, seeds: int) -> dict:
  """Success after training and share of steps whose batch had any success, [seeds]."""
  group = arm.startswith('group')

  def train(carry, step, key):
    logits_T, values_T = carry
    right_RT = jax.random.uniform(keys.stream(key, 'act', step), (ROWS, turns)) < jax.nn.sigmoid(
        logits_T)[None]
    reward_R = jnp.all(right_RT, axis=1).astype(jnp.float32)
    fine_RT = jnp.cumsum(~right_RT, axis=1) - ~right_RT == 0  # nothing has failed before
    known_RT = fine_RT if arm == 'critic, seen' else jnp.ones_like(fine_RT)
    shape = (ROWS // GROUP, GROUP) if group else (ROWS, 1)
    part = lambda x: x.reshape(*shape, *x.shape[1:])
    played = chains.rollout(part(reward_R), jnp.ones((*shape, turns), jnp.int32),
                            jnp.ones((*shape, turns), bool))
    credit_PGT = chains.credit(ARMS[arm], played, part(known_RT * values_T[None]))
    advantages_RT = credit_PGT.reshape(ROWS, turns)
    score_RT = right_RT - jax.nn.sigmoid(logits_T)[None]
    logits_T = logits_T + RATE * jnp.mean(advantages_RT * score_RT, axis=0)
    count_T = jnp.maximum(known_RT.sum(axis=0), 1)
    error_T = jnp.sum(known_RT * (reward_R[:, None] - values_T[None]), axis=0) / count_T
    return (logits_T, values_T + VALUE_RATE * error_T), jnp.any(reward_R > 0)

  def run(seed):
    start = jnp.full(turns, math.log(9.0)), jnp.zeros(turns)
    step = functools.partial(train, key=keys.root(seed))
    (logits_T, _), any_ = jax.lax.scan(step, start, jnp.arange(steps))
    return jnp.prod(jax.nn.sigmoid(logits_T)), jnp.mean(any_)

  success, seen = jax.device_get(jax.jit(jax.vmap(run))(jnp.arange(seeds)))
  return dict(success=success, seen=seen)


def signal(arm: str, batches: int, seed: int = 0) -> tuple[float, float]:
  """SNR of the gradient of one decisive step, with its standard error; see experiments/snr."""
  name, prompts, group = SNR[arm]

  def gradient(key):
    q_P1 = jax.random.uniform(keys.stream(key, 'prompts'), (prompts, 1))
    right_PG = jax.random.uniform(keys.stream(key, 'act'), (prompts, group)) < q_P1
    one = jnp.ones((prompts, group, 1), jnp.int32)
    played = chains.rollout(right_PG.astype(jnp.float32), one, one > 0)
    values = jnp.broadcast_to(q_P1[..., None], one.shape)
    return jnp.mean(chains.credit(name, played, values)[..., 0] * (right_PG - q_P1))

  root = keys.root(seed)
  keys_N = jax.vmap(lambda i: keys.stream(root, 'batch', i))(jnp.arange(batches))
  g_N = np.asarray(jax.jit(jax.vmap(gradient))(keys_N), np.float64)
  snr = abs(g_N.mean()) / g_N.std(ddof=1)
  return float(snr), math.sqrt((1 + snr**2 / 2) / batches)


def rows(size: str, progress) -> list[dict]:
  """Rows of results.csv; see the module docstring."""
  made, horizons = [], HORIZONS[size]
  total = len(SHARES) + len(ARMS) * len(horizons) + len(SNR)
  step = lambda done: progress(done, total)
  for i, (right, turns) in enumerate(SHARES, 1):
    p = right**turns
    share, se = measured(right, turns, GROUPS[size])
    made.append(dict(part='share', right=right, horizon=turns, group=GROUP,
                     analytic=informative(p, GROUP), measured=share, se=se, needed=needed(p)))
    step(i)
  done = len(SHARES)
  for turns in horizons:
    for arm in ARMS:
      out = learn(arm, turns, STEPS[size], SEEDS[size])
      made += [dict(part='learn', arm=arm, right=0.9, horizon=turns, seed=i, start=0.9**turns,
                    success=float(out['success'][i]), seen=float(out['seen'][i]))
               for i in range(SEEDS[size])]
      done += 1
      step(done)
  for arm in SNR:
    snr, se = signal(arm, BATCHES[size])
    made.append(dict(part='snr', arm=arm, snr=snr, se=se))
    done += 1
    step(done)
  return made
