"""Signal and noise of a gradient against the length of the episode: a toy that is solved exactly.

T binary steps share one parameter with P(right) = q = 0.7; K decisive steps are spread evenly, the
last of each of K equal blocks; R = 1 if all decisive steps are right, paid at the end. A failure
shows at once with probability v, else never. The exact value before step t of an episode that has
shown no failure is

    V_t = (q / (q + (1 - q)(1 - v)))^d q^(K - d),    d decisive steps behind,

and 0 once a failure has shown. One batch is 128 episodes: 16 groups of 8 for a group, 128 single
ones for a critic. Its gradient is g = mean over episodes of sum_t A_t (a_t - q), and

    SNR = |mean of g| / std of g    over batches.

High SNR may point elsewhere. With one parameter a step, g_t = A_t (a_t - q), the true gradient is
q^K (1 - q) on decisive steps and 0 on others; `cosine` is that of the mean of g_t, its length
corrected for the noise of a finite number of batches (Drowning in Routine, arXiv:2606.22164).
"""

from collections.abc import Mapping
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.study import chains

RIGHT, ROWS, GROUP = 0.7, 128, 8
NOISE = 0.1  # spread of the error of a noisy critic
HORIZONS = dict(smoke=(8, 32), small=(8, 32, 128, 512), full=(8, 32, 128, 512, 2048))
BATCHES = dict(smoke=100, small=400, full=4000)
GRPO = 'group z-score (GRPO)'
# Arm -> (lambda of an episode of T steps, whether its values carry an error).
CRITICS = {
    'exact critic, lambda 1': (lambda T: 1.0, 0), 'exact critic, lambda by length':
    (lambda T: 1 - 1 / (1.5 * T), 0), 'exact critic, lambda 0.95': (lambda T: 0.95, 0),
    'exact critic, lambda 0': (lambda T: 0.0, 0), 'noisy critic, lambda 0.95': (lambda T: 0.95, 1),
    'noisy critic, lambda 0': (lambda T: 0.0, 1)}
ARMS = (GRPO, *CRITICS)
MIDDLE = 128  # horizon at which visibility, decisive steps and the critic's error are varied


def is_decisive(turns: int, decisive: int) -> np.ndarray:
  """Which steps decide, bool [T]."""
  return (turns - 1 - np.arange(turns)) * decisive % turns < decisive


def episodes(key, turns: int, *, decisive: int, visibility: float):
  """One batch: (right bool [B,T], R [B], exact value before each step [B,T])."""
  matters_1T = jnp.asarray(is_decisive(turns, decisive))[None]
  draw = jax.random.uniform(key, (2, ROWS, turns))
  right_BT = draw[0] < RIGHT
  failed_BT = matters_1T & ~right_BT
  shown_BT = failed_BT & (draw[1] < visibility)
  before = lambda x_BT: jnp.cumsum(x_BT, axis=1) - x_BT
  behind_1T = before(matters_1T)
  kept = RIGHT / (RIGHT + (1 - RIGHT) * (1 - visibility))
  values_1T = kept**behind_1T * RIGHT ** (decisive - behind_1T)
  values_BT = jnp.where(before(shown_BT) > 0, 0.0, values_1T)
  return right_BT, 1.0 - jnp.any(failed_BT, axis=1), values_BT


def gradients(key, turns: int, decisive: int, visibility, noise):
  """Gradients of one batch by each of `ARMS`, with one parameter a step: f32 [arms, T]."""
  draws, errors = keys.stream(key, 'episodes'), keys.stream(key, 'critic')
  right_BT, reward_B, values_BT = episodes(draws, turns, decisive=decisive,
                                              visibility=visibility)
  wrong_BT = values_BT + noise * jax.random.normal(errors, values_BT.shape)

  def gradient(shape, arm, values_BT=None, **returns):
    part = lambda x: x.reshape(*shape, *x.shape[1:])
    played = chains.rollout(part(reward_B), jnp.ones((*shape, turns), jnp.int32),
                            jnp.ones((*shape, turns), bool))
    values_PGT = None if values_BT is None else part(values_BT)
    advantages_BT = chains.credit(arm, played, values_PGT, **returns).reshape(ROWS, turns)
    return jnp.mean(advantages_BT * (right_BT - RIGHT), axis=0)

  def critic(lam, noisy):  # one program for all arms with a critic
    values = jnp.where(noisy, wrong_BT, values_BT)
    return gradient((ROWS, 1), 'exact critic, lambda 1', values, lam=lam)

  lams, noisy = zip(*((lam(turns), noisy) for lam, noisy in CRITICS.values()))
  group = gradient((ROWS // GROUP, GROUP), GRPO)
  return jnp.concatenate([group[None], jax.vmap(critic)(jnp.array(lams), jnp.array(noisy))])


@functools.lru_cache(maxsize=32)
def program(turns: int, decisive: int):
  """(keys [N], visibility, noise) -> gradients [N, arms, T]."""
  def many(keys_N, visibility, noise):
    return jax.lax.map(lambda key: gradients(key, turns, decisive, visibility, noise), keys_N)

  return jax.jit(many)


def measure(turns: int, *, visibility: float, batches: int,
            decisive: int = 4, noise: float = NOISE, seed: int = 0) -> Mapping[str, dict]:
  """SNR with its standard error, and cosine with the true gradient, of each of `ARMS`.

  The standard error is that of a normal sample, sqrt((1 + SNR^2 / 2) / batches).
  """
  keys_N = jax.vmap(lambda i: keys.stream(keys.root(seed), 'batch', i))(jnp.arange(batches))
  grads_NAT = np.asarray(program(turns, decisive)(keys_N, visibility, noise), np.float64)
  true_T = is_decisive(turns, decisive).astype(np.float64)
  out = {}
  for i, arm in enumerate(ARMS):
    g_NT = grads_NAT[:, i]
    total_N, mean_T = g_NT.sum(axis=1), g_NT.mean(axis=0)
    snr = abs(total_N.mean()) / total_N.std(ddof=1)
    square = mean_T @ mean_T - g_NT.var(axis=0, ddof=1).sum() / batches
    cosine = mean_T @ true_T / math.sqrt(square * true_T.sum()) if square > 0 else math.nan
    out[arm] = dict(snr=snr, se=math.sqrt((1 + snr**2 / 2) / batches), cosine=min(cosine, 1.0))
  return out


def slope(x, y) -> float:
  """Least-squares slope of log y against log x."""
  return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def rows(size: str, progress) -> list[dict]:
  """Rows of results.csv. Part 'horizon': the table; 'slope': of log SNR against log T.

  Parts 'visibility', 'decisive' and 'error' vary one thing at T = 128 (the longest of smoke).
  """
  horizons, batches = HORIZONS[size], BATCHES[size]
  middle = min(MIDDLE, horizons[-1])
  grid = [('horizon', turns, dict(visibility=float(v))) for v in (1, 0) for turns in horizons]
  grid += [('visibility', middle, dict(visibility=v)) for v in (0.25, 0.5, 0.75)]
  grid += [('decisive', middle, dict(visibility=1.0, decisive=k)) for k in (1, 2, 8)]
  grid += [('error', middle, dict(visibility=1.0, noise=x)) for x in (0.01, 0.03, 0.3)]
  made = []
  for i, (part, turns, changes) in enumerate(grid, 1):
    found = measure(turns, batches=batches, **changes)
    full = dict(visibility=1.0, decisive=4, noise=NOISE) | changes
    made += [dict(part=part, arm=arm, horizon=turns) | full | numbers
             for arm, numbers in found.items()]
    progress(i, len(grid))
  for visibility in (1.0, 0.0):
    for arm in ARMS:
      line = [r['snr'] for r in made if (r['part'], r['arm'], r['visibility']) == (
          'horizon', arm, visibility)]
      made.append(dict(part='slope', arm=arm, visibility=visibility, slope=slope(horizons, line)))
  return made
