"""Slow NumPy twins of baselines, surrogates, corrections, gates, weights and memories.

As in reference.py: from the formulas, float64, one number at a time, no code shared with the
package. A row is a list of tokens; `on` lists the trained positions.
"""

import math

import numpy as np

from tests import reference


def clip(x, low, high):
  return min(max(x, low), high)


def sigmoid(x):
  return 1 / (1 + math.exp(-x))


# --- advantages: one chunk index of one group, or a whole batch -----------------------------------

def length_weighted(rewards, lengths, tol):
  """R - sum L R / sum L."""
  if reference.is_flat(rewards, tol):
    return [0.0] * len(rewards)
  base = sum(n * r for n, r in zip(lengths, rewards, strict=True)) / sum(lengths)
  return [r - base for r in rewards]


def mean_over_mean(rewards, tol):
  """(R - mean) / mean where the mean is positive."""
  mean = math.fsum(rewards) / len(rewards)
  if reference.is_flat(rewards, tol) or mean <= 0:
    return [0.0] * len(rewards)
  return [(r - mean) / mean for r in rewards]


def beta_density(groups, tol, most=1e6):
  """(R - p) min(1 / BetaPDF(p), most), for a list of groups with rewards in [0, 1]."""
  rates = [math.fsum(g) / len(g) for g in groups]
  m, std = reference.mean_std(rates)
  alpha = beta = 1.0
  if len(rates) > 1 and max(rates) - min(rates) > tol * m:
    scale = m * (1 - m) / std**2 - 1
    alpha, beta = max(1.0, 1 + scale * m / 3), max(1.0, 1 + scale * (1 - m) / 3)
  out = []
  for group, p in zip(groups, rates, strict=True):
    if reference.is_flat(group, tol):
      out.append([0.0] * len(group))
      continue
    norm = math.gamma(alpha) * math.gamma(beta) / math.gamma(alpha + beta)
    pdf = p**(alpha - 1) * (1 - p)**(beta - 1) / norm
    out.append([(r - p) * min(1 / pdf, most) for r in group])
  return out


def centre(groups, tol):
  """R - mean of the group, 0 in flat ones."""
  return [[0.0 if reference.is_flat(g, tol) else r - math.fsum(g) / len(g) for r in g]
          for g in groups]


def informative_center(groups, tol):
  """(R - mean) times groups / groups with spread."""
  live = sum(not reference.is_flat(g, tol) for g in groups)
  return [[r * len(groups) / live if live else 0.0 for r in g] for g in centre(groups, tol)]


def log_mean_exp(rewards, tau, members, tol):
  """R_i - tau log mean exp(R_j / tau)."""
  out = []
  for i, r in enumerate(rewards):
    seen = [x for j, x in enumerate(rewards) if members == 'all' or j != i]
    if not seen or reference.is_flat(rewards, tol):
      out.append(0.0)
    else:
      out.append(r - tau * math.log(sum(math.exp(x / tau) for x in seen) / len(seen)))
  return out


def best_of_group(rewards, tol):
  """Best minus second, on the first best."""
  out = [0.0] * len(rewards)
  if len(rewards) > 1 and not reference.is_flat(rewards, tol):
    best = max(range(len(rewards)), key=lambda i: (rewards[i], -i))
    out[best] = rewards[best] - max(r for i, r in enumerate(rewards) if i != best)
  return out


def batch_zscore(numbers, eps, tol):
  """(x - mean) / (std + eps)."""
  mean, std = reference.mean_std(numbers)
  flat = reference.is_flat(numbers, tol) or std == 0
  return [0.0 if flat else (x - mean) / (std + eps) for x in numbers]


def decoupled(groups, weights, eps, tol):
  """GDPO: `groups` hold vectors of rewards."""
  mixed = []
  for group in groups:
    scores = np.zeros(len(group))
    for n, w in enumerate(weights):
      column = [x[n] for x in group]
      mean, std = reference.mean_std(column)
      if not reference.is_flat(column, tol) and std > 0:
        scores += [w * (x - mean) / (std + eps) for x in column]
    mixed.append(list(scores))
  flat = batch_zscore([x for g in mixed for x in g], eps, tol)
  return [[flat.pop(0) for _ in g] for g in mixed]


def center_whiten(groups, lengths, tol):
  """Each centred reward stands for as many numbers as its row has tokens."""
  centred = centre(groups, tol)
  tokens = [x for g, ns in zip(centred, lengths, strict=True)
            for x, n in zip(g, ns, strict=True) for _ in range(n)]
  mean, std = reference.mean_std(tokens)
  return [[(x - mean) / math.sqrt(std**2 + 1e-8) for x in g] for g in centred]


# --- surrogates: loss and d sum(loss) / d logp of a row -------------------------------------------

def surrogate(kind, logp, old, advantage, mask, **c):
  """Losses and gradients of one row, from the table of gates."""
  on = reference.trained(mask)
  loss, grad = np.zeros(len(mask)), np.zeros(len(mask))
  drift = {t: logp[t] - old[t] for t in on}
  total, length = sum(drift.values()), len(on)
  if kind == 'gmpo':
    clipped = {t: min(d, c['high']) if advantage[t] > 0 else max(d, -c['low'])
               for t, d in drift.items()}
    geometric = math.exp(sum(clipped.values()) / length) if on else 1.0
    praise = sum(advantage[t] for t in on)
  for t in on:
    a, d = advantage[t], drift[t]
    r, p, q = math.exp(d), math.exp(logp[t]), math.exp(old[t])
    if kind == 'importance':
      loss[t], grad[t] = -a * r, -a * r
    elif kind == 'gmpo':
      loss[t] = -a * geometric
      grad[t] = -praise * geometric / length * (clipped[t] == d)
    elif kind == 'sapo':
      tau = c['positive'] if a > 0 else c['negative']
      s = sigmoid(tau * (r - 1))
      loss[t], grad[t] = -a * s * 4 / tau, -a * r * 4 * s * (1 - s)
    elif kind in ('dppo_tv', 'dppo_kl'):
      if kind == 'dppo_tv':
        keep = p - q <= c['high'] if a > 0 else p - q >= -c['low']
      else:
        kl = q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
        keep = kl <= c['bound'] or (p <= q if a > 0 else p >= q)
      weight = min(r, c['cap']) * keep
      loss[t], grad[t] = -weight * a * logp[t], -weight * a
    elif kind == 'vespo':
      k, lam = (2, 3) if a >= 0 else (3, 2)
      w = math.exp(clip(total, -20, 20))
      phi = math.exp(lam) * w**k * math.exp(-lam * w)
      loss[t], grad[t] = -phi * a * logp[t], -phi * a
    elif kind in ('squared', 'pmd'):
      scale = 1 if kind == 'squared' else 1 / (2 * c['tau'] * length)
      loss[t] = scale * (a - c['tau'] * total)**2
      grad[t] = sum(-2 * c['tau'] * scale * (advantage[u] - c['tau'] * total) for u in on)
    elif kind == 'dro':
      loss[t], grad[t] = -(a * logp[t] - 0.5 * c['beta'] * d * d), -a + c['beta'] * d
  return loss, grad


def covariance(logp, advantage):
  """Products of centred numbers of a flat list of tokens."""
  a, b = math.fsum(advantage) / len(advantage), math.fsum(logp) / len(logp)
  return [(x - a) * (y - b) for x, y in zip(advantage, logp, strict=True)]


def part(share, count):
  """max(1, floor(share N))."""
  return max(1, int(share * count + 1e-9))


# --- corrections: a row, but m2po ----------------------------------------------------------------

def correction(kind, old, sampler, mask, *, level='token', low=0.0, high=0.0):
  """Weight of each token."""
  on = reference.trained(mask)
  x = {t: old[t] - sampler[t] for t in on}
  if level != 'token':
    total = sum(x.values()) / (len(on) if level == 'geometric' and on else 1)
    x = dict.fromkeys(on, total)
  out = np.zeros(len(mask))
  for t in on:
    k = math.exp(clip(x[t], -20, 20))
    out[t] = clip(k, low, high) if kind == 'tis' else k * (low <= k <= high)
  return out


def m2po(squares, tau):
  """Drops the largest of a list until the mean is below tau: which stay."""
  kept = sorted(range(len(squares)), key=lambda i: squares[i])
  while len(kept) > 1 and math.fsum(squares[i] for i in kept) / len(kept) >= tau:
    kept.pop()
  return set(kept)


def reject(old, sampler, mask, kind, level, low, high):
  """Tokens of a row that stay."""
  on = reference.trained(mask)
  if not on:
    return np.zeros(len(mask), bool)
  x = {t: old[t] - sampler[t] for t in on}
  value = {t: {'k1': -v, 'k2': v * v / 2, 'k3': math.exp(v) - 1 - v}[kind] for t, v in x.items()}
  if level != 'token':
    row = {'sum': sum, 'mean': lambda v: sum(v) / len(v), 'max': max}[level](list(value.values()))
    value = dict.fromkeys(on, row)
  good = lambda v: math.log(low) <= v <= math.log(high) if kind == 'k1' else v <= high
  return np.array([t in value and good(value[t]) for t in range(len(mask))])


# --- gates, weights, memories --------------------------------------------------------------------

def off_policy_sequence(logp, sampler, advantage, mask, delta):
  on = reference.trained(mask)
  gone = sum(sampler[t] - logp[t] for t in on) / len(on) if on else 0.0
  return [float(t in on and (advantage[t] >= 0 or gone <= delta)) for t in range(len(mask))]


def sequence_kl(logp, sampler, mask, delta):
  on = reference.trained(mask)
  total = 0.0
  for t in on:
    p, q = math.exp(sampler[t]), math.exp(logp[t])
    total += p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
  return [float(t in on and total / len(on) <= delta) for t in range(len(mask))]


def prefix_share(tokens_GT, mask_GT):
  """1 / samples that train the token after an equal prefix."""
  samples, length = np.shape(tokens_GT)
  out = np.zeros((samples, length))
  for i in range(samples):
    for t in range(length):
      if mask_GT[i][t]:
        out[i, t] = 1 / sum(list(tokens_GT[j][:t + 1]) == list(tokens_GT[i][:t + 1])
                            for j in range(samples) if mask_GT[j][t])
  return out


class Tracker:
  """The Beta law of one prompt, as in the paper's algorithm."""

  def __init__(self, least, most, half):
    self.least, self.most, self.half = least, most, half
    self.a = self.b = 0.5 / (1 - least)

  def rate(self):
    return self.a / (self.a + self.b)

  def update(self, rewards, drift):
    rho = clip(2**(-drift / self.half), self.least, self.most)
    self.a = rho * self.a + sum(rewards)
    self.b = rho * self.b + sum(1 - r for r in rewards)
