"""Measures of credit against the truth, from what the audit gathered.

Below A is the true advantage, Â the estimate and g its gradient in the policy's parameters.

  cosine     of E g with the true gradient
  step_cosine   mean cosine of one batch's g with the true gradient: what one update does
  snr        |E g| / sqrt(E |g - E g|^2)
  bias       sqrt(1 - rho^2), rho the correlation of the contrasts E[Â | state, right action] -
             E[Â | state, wrong one] with those of A: what no scale repairs and no baseline, as a
             number that all actions of a state share moves no gradient; 0 is right up to scale
  offset     root mean square of that number, E[Â | state], over that of scale x A
  scale      the factor that a learning rate has to undo: contrasts are about scale x those of A
  noise      root mean square of Â - E[Â | state, action] over that of scale x A
  sign       share of turns with A != 0 whose Â has the other sign; 0 counts half
  rank       P(a right action gets more than a wrong one) - P(less), among pairs of one batch, turn
             and state in which they differ: Kendall's tau of the two kinds of action
  leakage    share of |Â| on turns at which no action has an advantage

A state is (turn, damage, shown), an action right or wrong. Squares of mean gradients are corrected
for their noise: products of different batches only (U-statistics), so a finite number of batches
gives no gradient where there is none. Squares of contrasts (bias, scale) are corrected by the
variance inside a state and action, which takes rows as independent: where rows share turns it is
too small, and bias too large. The offset is not corrected: where there is none it falls as one over
the root of the rows. A measure that this leaves undefined is NaN. Intervals are percentiles of the
bootstrap over batches.
"""

from collections.abc import Sequence
import dataclasses
import math

import numpy as np

__all__ = ['Evidence', 'MEASURES', 'BOUNDS', 'rows']

MEASURES = ('cosine', 'step_cosine', 'snr', 'bias', 'offset', 'scale', 'noise', 'sign', 'rank',
            'leakage')
# What a measure can be; an estimate from few batches, or its interval, may reach beyond. A picture
# ends there.
BOUNDS = dict(cosine=(-1, 1), step_cosine=(-1, 1), snr=(0, math.inf), bias=(0, 1),
              offset=(0, math.inf), noise=(0, math.inf), sign=(0, 1), rank=(-1, 1), leakage=(0, 1))
_SMALL = 1e-6


@dataclasses.dataclass(frozen=True)
class Evidence:
  """What the audit saw: B batches, E estimators of which the first is the truth, H turns."""
  names: Sequence[str]
  batches: int
  spread: float         # of the policy inside a latent state, see behaviour.Mean
  estimate: np.ndarray  # f32 [B,E,P,G,H]
  truth: np.ndarray     # f32 [B,P,G,H]
  on: np.ndarray        # bool [B,P,G,H]; the turn was played
  right: np.ndarray     # bool [B,P,G,H]; the action was the right one
  state: np.ndarray     # int [B,P,G,H]; damage and shown, 0 to 5
  matters: np.ndarray   # bool [B,P,G,H]; actions differ in advantage there
  gradient: np.ndarray  # f32 [B,E,D]
  success: np.ndarray   # f32 [B,P,G]
  value: np.ndarray     # f32 [B,P,G,H]; exact, before the turn
  predicted: np.ndarray | None = None  # f32 [B,P,G,H]; by the run's own critic


def _ratio(a, b):
  with np.errstate(divide='ignore', invalid='ignore'):
    return np.where(b > 0, a / np.where(b > 0, b, 1.0), np.nan)


def _gradients(g_BD, t_BD, weights_RB):
  """cosine, step_cosine and snr for each row of weights (how often a batch was drawn), [R]."""
  B, both = len(g_BD), np.concatenate([g_BD, t_BD])
  products = np.einsum('bd,cd->bc', both, both)  # BLAS rounds by its number of threads
  gram, cross, true = products[:B, :B], products[:B, B:], products[B:, B:]
  own = np.einsum('rb,rb->r', weights_RB, weights_RB)
  total = weights_RB.sum(axis=1)
  pairs = total**2 - own

  def between(m_BB):  # mean over pairs of different batches
    full = np.sum((weights_RB @ m_BB) * weights_RB, axis=1)
    return (full - weights_RB**2 @ np.diag(m_BB)) / np.where(pairs > 0, pairs, np.nan)

  square, toward, size = between(gram), between(cross), between(true)
  square, size = np.where(square > 0, square, np.nan), np.where(size > 0, size, np.nan)
  each = weights_RB @ np.diag(gram) / total
  others_RB = weights_RB @ cross.T - weights_RB * np.diag(cross)[None]
  others_RB = others_RB / np.maximum(total[:, None] - weights_RB, 1)
  norm_B = np.sqrt(np.diag(gram))
  step_RB = np.where(norm_B > 0, others_RB / np.where(norm_B > 0, norm_B, 1.0), 0.0)
  step = np.einsum('rb,rb->r', weights_RB, step_RB) / total / np.sqrt(size)
  noise = each - square
  return dict(cosine=np.clip(toward / np.sqrt(square * size), -1, 1), step_cosine=step,
              snr=np.sqrt(_ratio(square, noise)))


def _cells(x_BN, a_BN, cell_BN, on_BN, count):
  """Sums by batch and cell: number, estimate, its square, truth; each [B,C]."""
  B = x_BN.shape[0]
  place = (np.arange(B)[:, None] * count + cell_BN)[on_BN]
  total = lambda w: np.bincount(place, w, B * count).reshape(B, count)
  x, a = x_BN[on_BN].astype(np.float64), a_BN[on_BN].astype(np.float64)
  return total(np.ones_like(x)), total(x), total(x * x), total(a)


def _values(sums, weights_RB):
  """bias, offset, scale and noise from the sums of cells; wrong and right are neighbours."""
  n, x, xx, a = ((weights_RB @ s).reshape(len(weights_RB), -1, 2) for s in sums)
  safe = np.maximum(n, 1)
  m, truth = x / safe, a / safe
  within = np.maximum(xx / safe - m * m, 0) * safe / np.maximum(n - 1, 1)
  both = np.where((n > 1).all(axis=2), n.prod(axis=2) / np.maximum(n.sum(axis=2), 1), 0.0)
  dx, da = m[..., 1] - m[..., 0], truth[..., 1] - truth[..., 0]
  product, power = np.sum(both * dx * da, axis=1), np.sum(both * da * da, axis=1)
  power = np.where(power > _SMALL**2 * both.sum(axis=1), power, 0.0)  # rounding is no signal
  energy = np.sum(both * (dx * dx - (within / safe).sum(axis=2)), axis=1)
  scale = _ratio(product, power)
  # Where two contrasts are proportional this is 0 / 0 but for rounding.
  square = np.minimum(_ratio(product**2, energy * power), 1.0)
  some = (scale > 0) & (square > 1e-3)  # else there is no signal to measure noise by
  signal = np.where(some, np.sum(n * truth**2, axis=(1, 2)) * scale**2, 0.0)
  centre = x.sum(axis=2) / np.maximum(n.sum(axis=2), 1)
  return dict(bias=np.sqrt(1 - square), scale=scale,
              offset=np.sqrt(_ratio(np.sum(n.sum(axis=2) * centre**2, axis=1), signal)),
              noise=np.sqrt(_ratio(np.sum(np.where(n > 1, n * within, 0.0), axis=(1, 2)), signal)))


def _pairs(x_BNH, right_BNH, group_BNH, on_BNH):
  """(pairs in the right order minus pairs in the wrong one, pairs) of each batch, turn: [B,H]."""
  both = (on_BNH & right_BNH)[:, :, None] & (on_BNH & ~right_BNH)[:, None]
  both &= group_BNH[:, :, None] == group_BNH[:, None]
  order = np.sign(x_BNH[:, :, None] - x_BNH[:, None])
  return np.sum(order, axis=(1, 2), where=both, dtype=np.float64), both.sum(axis=(1, 2))


def _percentiles(x, *shares):
  """Percentiles of what is not NaN, linear between neighbours; np.nanpercentile takes 30 times."""
  x = np.sort(x[~np.isnan(x)])
  if not len(x):
    return [np.nan] * len(shares)
  at = np.array(shares) / 100 * (len(x) - 1)
  below = np.floor(at).astype(int)
  above = np.minimum(below + 1, len(x) - 1)
  return x[below] + (x[above] - x[below]) * (at - below)


def _measure(evidence, e, weights_RB):
  """All measures of estimator `e`: over the episode, and by turn; arrays [R] and [H,R]."""
  B, P, G, H = evidence.truth.shape
  flat = lambda x: x.reshape(B, P * G, H)
  x, a, on = flat(evidence.estimate[:, e]), flat(evidence.truth), flat(evidence.on)
  right, state, matters = flat(evidence.right), flat(evidence.state), flat(evidence.matters)
  x = np.where(np.abs(x) > _SMALL, x, 0.0)
  wide = lambda y: y.reshape(B, -1)
  turn = np.broadcast_to(np.arange(H), x.shape)
  cells = _cells(wide(x), wide(a), wide((turn * 6 + state) * 2 + right), wide(on), 12 * H)
  apart = on & (np.abs(a) > _SMALL)
  wrong = np.where(x == 0, 0.5, np.sign(x) != np.sign(a)) * apart
  score, pairs = _pairs(x, right, state, on & matters)
  size, off = np.abs(x) * on, np.abs(x) * (on & ~matters)
  share = lambda a_B, b_B: _ratio(weights_RB @ a_B, weights_RB @ b_B)
  whole = _gradients(evidence.gradient[:, e].astype(np.float64),
                     evidence.gradient[:, 0].astype(np.float64), weights_RB)
  whole |= _values(cells, weights_RB)
  whole |= dict(sign=share(wrong.sum(axis=(1, 2)), apart.sum(axis=(1, 2))),
                rank=share(score.sum(axis=1), pairs.sum(axis=1)),
                leakage=share(off.sum(axis=(1, 2)), size.sum(axis=(1, 2))))
  turns = []
  for h in range(H):
    part = _values(tuple(c[:, 12 * h:12 * (h + 1)] for c in cells), weights_RB)
    part |= dict(sign=share(wrong[..., h].sum(axis=1), apart[..., h].sum(axis=1)),
                 rank=share(score[:, h], pairs[:, h]))
    turns.append(part)
  return whole, turns


def rows(evidence: Evidence, *, samples: int = 200, confidence: float = 0.95, seed: int = 0,
         turns: bool = True) -> list[dict]:
  """One row for each estimator, then one for each estimator and turn, with intervals.

  Args:
    evidence: of the audit.
    samples: resamples of the batches.
    confidence: of the intervals, columns NAME_low and NAME_high.
    seed: of the resampling.
    turns: whether rows by turn are wanted.
  """
  B = evidence.batches
  drawn = np.random.default_rng(seed).multinomial(B, np.full(B, 1 / B), size=samples)
  weights_RB = np.concatenate([np.ones((1, B)), drawn]).astype(np.float64)
  tail = 100 * (1 - confidence) / 2
  made, later = [], []

  def row(name, part, measured, **more):
    out = dict(part=part, estimator=name, **more)
    for key in MEASURES:
      if key not in measured:
        continue
      value = measured[key]
      low, high = _percentiles(value[1:], tail, 100 - tail)
      out |= {key: float(value[0]), f'{key}_low': float(low), f'{key}_high': float(high)}
    return out

  for e, name in enumerate(evidence.names):
    whole, by_turn = _measure(evidence, e, weights_RB)
    made.append(row(name, 'episode', whole))
    if turns:
      later += [row(name, 'turn', part, turn=h) for h, part in enumerate(by_turn)
                if evidence.on[..., h].any()]
  common = dict(success=float(evidence.success.mean()), spread=evidence.spread)
  return [r | common for r in made + later]
