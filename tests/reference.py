"""Slow NumPy written from the formulas, in float64, one episode and one number at a time.

Nothing here shares code with the package. Returns are written as sums from their definitions, not
as the recursions that the package uses.
"""

import math

import numpy as np


def trained(mask_T):
  """Positions of the trained tokens of a row, in time order."""
  return [t for t in range(len(mask_T)) if mask_T[t]]


def chunk_of(kind, mask_T, turn_T, segment_T, *, length=None, count=None):
  """Chunk of each position, -1 off the mask."""
  out = [-1] * len(mask_T)
  for number, t in enumerate(trained(mask_T)):
    out[t] = {'whole': 0, 'turn': turn_T[t], 'segment': segment_T[t], 'token': t,
              'fixed': number // length if length else 0}[kind]
    if count is not None:
      out[t] = min(out[t], count - 1)
  return out


def chunk_totals(x_T, chunk_T, count):
  """Sum over the tokens of each chunk."""
  return [sum(x_T[t] for t in range(len(x_T)) if chunk_T[t] == k) for k in range(count)]


def chunk_firsts(x_T, chunk_T, count):
  """Value on the first token of each chunk, 0 for an empty one."""
  out = []
  for k in range(count):
    here = [x_T[t] for t in range(len(x_T)) if chunk_T[t] == k]
    out.append(here[0] if here else 0)
  return out


def at_end(rewards_T, mask_T, share):
  """Rewards of a row of which a share waits for the last trained token."""
  on = trained(mask_T)
  out = np.zeros(len(rewards_T))
  for t in on:
    out[t] += (1 - share) * rewards_T[t]
    out[on[-1]] += share * rewards_T[t]
  return out


def reward_to_go(rewards_K, valid_K, discount, end=0.0):
  """sum_j discount^j rho_j over this and later valid entries, and discount^n end."""
  index = trained(valid_K)
  out = np.zeros(len(rewards_K))
  for i, k in enumerate(index):
    later = index[i:]
    out[k] = sum(discount**j * rewards_K[m] for j, m in enumerate(later))
    out[k] += discount**len(later) * end
  return out


def look_ahead(rewards_K, valid_K, n, discount, after_K, end):
  """R_k = sum_{j<=n} discount^j rho_{k+j} + discount^{n+1} b_{k+n+1} over valid entries."""
  index = trained(valid_K)
  out = np.zeros(len(rewards_K))
  for i, k in enumerate(index):
    for j in range(n + 1):
      if i + j < len(index):
        out[k] += discount**j * rewards_K[index[i + j]]
    rest = i + n + 1
    if rest < len(index):
      out[k] += discount**(n + 1) * after_K[index[rest]]
    else:
      out[k] += discount**(len(index) - i) * end
  return out


def gae(rewards_K, values_K, valid_K, discount, lam, end=0.0):
  """A_k = sum_j (discount lam)^j delta_{k+j}, as a double sum over valid entries only."""
  index = trained(valid_K)
  values = [values_K[k] for k in index] + [end]
  delta = [rewards_K[k] + discount * values[i + 1] - values[i] for i, k in enumerate(index)]
  out = np.zeros(len(rewards_K))
  for i, k in enumerate(index):
    out[k] = sum((discount * lam)**j * d for j, d in enumerate(delta[i:]))
  return out


def adaptive_lambda(alpha, length):
  """max(0, 1 - 1 / (alpha l))."""
  return max(0.0, 1.0 - 1.0 / (alpha * length)) if length else 0.0


def mean_std(numbers, ddof=1):
  """Mean and standard deviation of a list."""
  n = len(numbers)
  mean = math.fsum(numbers) / n
  if n <= ddof:
    return mean, 0.0
  return mean, math.sqrt(math.fsum((x - mean)**2 for x in numbers) / (n - ddof))


def is_flat(numbers, tol):
  """Spread at most tol times the largest size."""
  return max(numbers) - min(numbers) <= tol * max(abs(x) for x in numbers)


def group(returns_GK, valid_GK, kind, over, *, ddof=1, tol=1e-5, batch_std=None):
  """Advantages of one group: 'center', 'zscore', 'loo', 'batch_std'."""
  out = np.zeros(np.shape(returns_GK))
  samples, count = out.shape
  for g in range(samples):
    for k in range(count):
      if not valid_GK[g][k]:
        continue
      if over == 'index':
        seen = [returns_GK[j][k] for j in range(samples) if valid_GK[j][k]]
        numbers = seen
      else:
        seen = [returns_GK[j][m] for j in range(samples) for m in range(count) if valid_GK[j][m]]
        numbers = seen
        if over == 'sequence':
          numbers = []
          for j in range(samples):
            mine = [returns_GK[j][m] for m in range(count) if valid_GK[j][m]]
            if mine:
              numbers.append(sum(mine) / len(mine))
      if is_flat(seen, tol):
        continue
      mean, std = mean_std(numbers, ddof)
      centred = returns_GK[g][k] - mean
      if kind == 'center':
        out[g, k] = centred
      elif kind == 'zscore':
        out[g, k] = centred / std if std else 0.0
      elif kind == 'loo':
        n = len(numbers)
        out[g, k] = centred * n / (n - 1) if n > 1 else 0.0
      elif kind == 'batch_std':
        out[g, k] = centred / batch_std if batch_std else 0.0
  return out


def whiten(x, valid):
  """(x - mean) / sqrt(var + 1e-8) over all valid entries."""
  numbers = [float(v) for v, ok in zip(np.ravel(x), np.ravel(valid), strict=True) if ok]
  mean, std = mean_std(numbers)
  return np.where(valid, (x - mean) / math.sqrt(std**2 + 1e-8), 0.0)


def ppo_clip(ratio, advantage, low, high, dual=None):
  """Loss of one token, and its derivative with respect to logp."""
  clipped = min(max(ratio, 1 - low), 1 + high)
  loss, slope = -advantage * ratio, -advantage * ratio
  if -advantage * clipped > loss:
    loss, slope = -advantage * clipped, 0.0
  if dual is not None and advantage < 0 and loss > -advantage * dual:
    loss, slope = -advantage * dual, 0.0
  return loss, slope


def dis(ratio, advantage, low, high):
  """Derivative of one token's loss with respect to logp."""
  return -advantage * ratio if 1 - low < ratio < 1 + high else 0.0


def cispo(ratio, advantage, low, high):
  """Derivative of one token's loss with respect to logp."""
  return -advantage * min(max(ratio, 1 - low), 1 + high)


def weights(kind, mask_NT, length=None):
  """Weight of each token, from the words of the definition."""
  out = np.zeros(np.shape(mask_NT))
  lengths = [sum(bool(x) for x in row) for row in mask_NT]
  rows = sum(n > 0 for n in lengths)
  for i, row in enumerate(mask_NT):
    for t, on in enumerate(row):
      if on:
        out[i, t] = {'token': 1 / sum(lengths), 'sequence': 1 / (rows * lengths[i]),
                     'sequence_sum': 1 / rows, 'token_sum': 1.0,
                     'constant_length': 1 / (rows * length) if length else 0}[kind]
  return out


def value_loss(value, old, target, clip):
  """Half squared error; the worse of it and that of the clipped value."""
  near = old + min(max(value - old, -clip), clip)
  return 0.5 * max((value - target)**2, (near - target)**2)
