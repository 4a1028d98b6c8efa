"""Slow NumPy of credit for agents, in float64, written from the formulas, one number at a time.

Nothing here shares code with the package. A row is a list over chunks; a group is a list of rows.
"""

import math

import numpy as np

from tests import reference


def cells(valid_GK):
  """(sample, chunk) of every valid chunk of a group."""
  return [(g, k) for g in range(len(valid_GK)) for k in range(len(valid_GK[g])) if valid_GK[g][k]]


def scores(numbers, how, *, ddof, eps, tol=1e-5):
  """Each number minus the mean, 'mean', or divided by std + eps, 'mean_std'; 0 if they are flat."""
  if reference.is_flat(numbers, tol):
    return [0.0] * len(numbers)
  mean, std = reference.mean_std(numbers, ddof)
  least = tol * max(abs(x) for x in numbers)
  centred = [0.0 if abs(x - mean) <= least else x - mean for x in numbers]
  return centred if how == 'mean' else [x / (std + eps) if std else 0.0 for x in centred]


def among(x_GK, group, how, *, ddof, eps):
  """Scores of the cells of each set of `group`, a list of lists of cells."""
  out = np.zeros(np.shape(x_GK))
  for members in group:
    values = scores([x_GK[c] for c in members], how, ddof=ddof, eps=eps)
    for cell, value in zip(members, values, strict=True):
      out[cell] = value
  return out


def by_key(keys):
  """Cells of equal key together; a key of None belongs nowhere."""
  sets = {}
  for cell, key in keys.items():
    if key is not None:
      sets.setdefault(key, []).append(cell)
  return list(sets.values())


def totals(rewards_GK, valid_GK):
  return [sum(r for r, ok in zip(row, mask, strict=True) if ok)
          for row, mask in zip(rewards_GK, valid_GK, strict=True)]


def leaf_scores(numbers, valid_GK, how='mean_std', *, ddof=1, eps=0.0):
  """Score of each sample among those with a valid chunk; 0 for the others."""
  here = [g for g in range(len(numbers)) if any(valid_GK[g])]
  out = [0.0] * len(numbers)
  if here:
    for g, value in zip(here, scores([numbers[g] for g in here], how, ddof=ddof, eps=eps),
                        strict=True):
      out[g] = value
  return out


def gigpo(step_GK, rewards_GK, valid_GK, state_GK, how, omega, eps=1e-6):
  episode = leaf_scores(totals(rewards_GK, valid_GK), valid_GK, how, eps=eps)
  anchors = by_key({c: state_GK[c] for c in cells(valid_GK)})
  step = among(step_GK, anchors, how, ddof=1, eps=eps)
  out = np.zeros(np.shape(step_GK))
  for g, k in cells(valid_GK):
    out[g, k] = episode[g] + omega * step[g, k]
  return out


def hgpo(step_GK, valid_GK, state_GK, depth, alpha, how, eps=1e-6):
  levels = []
  for h in range(depth + 1):
    keys = {}
    for g, k in cells(valid_GK):
      past = [j for j in range(k + 1) if valid_GK[g][j]][-(h + 1):]
      keys[g, k] = tuple(state_GK[g, j] for j in past) if len(past) == h + 1 else None
    levels.append(among(step_GK, by_key(keys), how, ddof=0, eps=eps))
  out = np.zeros(np.shape(step_GK))
  for c in cells(valid_GK):
    parts = [((h + 1) ** alpha, level[c]) for h, level in enumerate(levels) if level[c] != 0]
    out[c] = sum(w * a for w, a in parts) / (sum(w for w, _ in parts) + 1e-6)
  return out


def mt_grpo(own_GK, rewards_GK, valid_GK, coef, eps=1e-4):
  last = [max([k for k in range(len(row)) if row[k]], default=None) for row in valid_GK]
  outcome = leaf_scores([0.0 if k is None else rewards_GK[g][k] for g, k in enumerate(last)],
                        valid_GK, eps=eps)
  inner = [c for c in cells(valid_GK) if c[1] != last[c[0]]]
  turn = among(own_GK, by_key({c: c[1] for c in inner}), 'mean_std', ddof=1, eps=eps)
  out = np.zeros(np.shape(own_GK))
  for g, k in cells(valid_GK):
    out[g, k] = outcome[g] + coef * sum(turn[g, j] for j in range(k, last[g]))
  return out


def igpo(own_GK, valid_GK, joint, discount):
  last = [max([k for k in range(len(row)) if row[k]], default=None) for row in valid_GK]
  part = {c: joint == 'joint' or c[1] == last[c[0]] for c in cells(valid_GK)}
  z = np.zeros(np.shape(own_GK))
  for members in by_key(part):
    numbers = [own_GK[c] for c in members]
    if reference.is_flat(numbers, 1e-5):
      continue
    mean, std = reference.mean_std(numbers, 0)
    for c in members:
      z[c] = (own_GK[c] - mean) / (math.sqrt(std**2 + 1e-8) + 1e-6)
  return np.array([reference.reward_to_go(z[g], valid_GK[g], discount) for g in range(len(z))])


def empg(outcome_PGK, entropy_PGK, valid_PGK, k, k_next, zeta):
  """Over a whole batch: [P,G,K]."""
  where = [(p, *c) for p in range(len(valid_PGK)) for c in cells(valid_PGK[p])]
  out = np.zeros(np.shape(outcome_PGK))
  if not where:
    return out
  low, high = (f(entropy_PGK[c] for c in where) for f in (min, max))
  h = {c: (entropy_PGK[c] - low) / (high - low + 1e-8) for c in where}
  mean_gate = sum(math.exp(-k * x) for x in h.values()) / len(where)
  scored = {}
  for p in range(len(valid_PGK)):
    member = [sum(outcome_PGK[p, g][j] for j in range(out.shape[2]) if valid_PGK[p, g, j])
              / max(sum(valid_PGK[p, g]), 1) for g in range(out.shape[1])]
    for g, value in enumerate(leaf_scores(member, valid_PGK[p])):
      scored[p, g] = value
  for p, g, j in where:
    later = [m for m in range(j + 1, out.shape[2]) if valid_PGK[p, g, m]]
    bonus = math.exp(-k_next * h[p, g, later[0]]) if later else 0.0
    out[p, g, j] = scored[p, g] * math.exp(-k * h[p, g, j]) / mean_gate + zeta * bonus
  mean = sum(out[c] for c in where) / len(where)
  for c in where:
    out[c] -= mean
  return out


def stretches(label_K, valid_K):
  """Valid indices of a row, cut where the label changes."""
  out = []
  for k in reference.trained(valid_K):
    if out and label_K[out[-1][-1]] == label_K[k]:
      out[-1].append(k)
    else:
      out.append([k])
  return out


def bilevel(rewards_K, values_K, valid_K, turn_K, turn_discount, turn_lam, discount, lam, end):
  """Advantages: over turns, then over the tokens of each."""
  turns = stretches(turn_K, valid_K)
  ends = [turn[-1] for turn in turns]
  high = reference.gae([sum(rewards_K[k] for k in turn) for turn in turns],
                       [values_K[k] for k in ends], [1] * len(turns), turn_discount, turn_lam, end)
  out = np.zeros(len(rewards_K))
  for turn, b in zip(turns, high, strict=True):
    paid = [0.0] * (len(turn) - 1) + [b + values_K[turn[-1]]]
    out[turn] = reference.gae(paid, [values_K[k] for k in turn], [1] * len(turn), discount, lam)
  return out


def cross_segment(rewards_K, values_K, valid_K, segment_K, discount, lams, decays=True):
  """Advantages; `lams` maps (chunks of the row, chunks of the window) to lambda."""
  windows = stretches(segment_K, valid_K)
  out = np.zeros(len(rewards_K))
  for s, window in enumerate(windows):
    later = [k for other in windows[s + 1:] for k in other]
    own = [rewards_K[k] for k in window]
    own[-1] += sum(rewards_K[k] for k in later)
    lam = lams(sum(map(len, windows)), len(window))
    local = reference.gae(own, [values_K[k] for k in window], [1] * len(window), discount, lam)
    out[window] = (discount * lam) ** (len(later) if decays else 0) * local
  return out


def shaped(rewards_K, phi_K, valid_K, discount):
  """Rewards plus discount * next potential - potential; 0 at the end."""
  index = reference.trained(valid_K)
  out = np.zeros(len(rewards_K))
  for i, k in enumerate(index):
    after = phi_K[index[i + 1]] if i + 1 < len(index) else 0.0
    out[k] = rewards_K[k] + discount * after - phi_K[k]
  return out


def below(node_GK, valid_GK, g, k):
  """Leaves below the node of a chunk."""
  return [j for j in range(len(valid_GK)) if valid_GK[j][k] and node_GK[j][k] == node_GK[g][k]]


def tree(kind, leaf_G, valid_GK, node_GK, power=0.5, eps=1e-6):
  """Advantages of 'shared_prefix', 'tree_grpo', 'treerl', 'spo_tree' for leaves without gaps."""
  samples, count = np.shape(valid_GK)
  here = [g for g in range(samples) if any(valid_GK[g])]
  out = np.zeros((samples, count))
  if not here or reference.is_flat([leaf_G[g] for g in here], 1e-5):
    return out
  z = leaf_scores(leaf_G, valid_GK, eps=eps)
  total = sum(leaf_G[g] for g in here)
  loo = {g: leaf_G[g] - (total - leaf_G[g]) / (len(here) - 1) for g in here}
  for g, k in cells(valid_GK):
    mean = lambda x, k, g=g: sum(x[j] for j in below(node_GK, valid_GK, g, k)) / len(
        below(node_GK, valid_GK, g, k))
    value = loo if kind == 'treerl' else leaf_G
    root = sum(value[j] for j in here) / len(here)
    node, parent = mean(value, k), mean(value, k - 1) if k else root
    if kind == 'shared_prefix':
      out[g, k] = mean(z, k)
    elif kind == 'spo_tree':
      out[g, k] = node - parent
    elif kind == 'treerl':
      out[g, k] = (2 * node - root - parent) / len(below(node_GK, valid_GK, g, k)) ** power
    else:
      mates = below(node_GK, valid_GK, g, 0)
      intra = scores([leaf_G[j] for j in mates], 'mean_std', ddof=1, eps=eps)
      out[g, k] = intra[mates.index(g)] + z[g]
  return out


def uncertain(reward_PG, valid_PG, fraction):
  """Whether each prompt is among the first `fraction` by std, and varies at all."""
  std = []
  for row, ok in zip(reward_PG, valid_PG, strict=True):
    numbers = [r for r, on in zip(row, ok, strict=True) if on]
    flat = not numbers or reference.is_flat(numbers, 1e-5)
    std.append(0.0 if flat else reference.mean_std(numbers, 0)[1])
  wanted = max(1, math.floor(fraction * len(std) + 1e-6))
  order = sorted(range(len(std)), key=lambda p: (-np.float32(std[p]), p))[:wanted]
  return [p in order and std[p] > 0 for p in range(len(std))]
