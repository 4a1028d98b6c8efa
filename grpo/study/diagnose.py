"""Names what is wrong with a batch, its credit or the code that made them.

`diagnose` looks at one batch as it is trained on. Each check knows one fault, by what the fault
does to the numbers and not by how a program was written:

  leaked key                samples of a group repeat each other far more often than their own
                            probabilities allow: they share random numbers
  shifted mask              tokens are trained on at places where no action stands
  wrong row order           prompts differ inside a group, or recorded log-probs are those of other
                            rows: tokens, rewards and log-probs of a row do not belong together
  wrong log-probs           recorded log-probs differ from those of the policy in no such way
  dead group                no group has any spread, or one without spread gets credit all the same
  GAE through observations  credit changes if observations are made longer
  std over tokens           group scores have spread 1 over tokens, and not over samples
"""

from collections.abc import Callable, Sequence
import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from grpo import types

__all__ = ['Case', 'diagnose', 'stretched', 'table', 'NAMES']

NAMES = ('leaked key', 'shifted mask', 'wrong row order', 'wrong log-probs', 'dead group',
         'GAE through observations', 'std over tokens')
_TOLERANCE = 1e-3
_SIGMAS = 6.0  # a check that counts calls a fault what chance gives once in a billion batches


@dataclasses.dataclass(frozen=True)
class Case:
  """A batch and how it is credited.

  Attributes:
    layout: of the windows.
    rollout: as sampled.
    logp_PGT: log-probs of its tokens under the policy that sampled, computed again.
    values_PGT: values that credit reads, or None.
    credit: (rollout, values_PGT) -> advantages_PGT.
    grouped: whether the method compares the samples of a prompt.
  """
  layout: types.Layout
  rollout: types.Rollout
  logp_PGT: jax.Array
  values_PGT: jax.Array | None
  credit: Callable
  grouped: bool = True


def diagnose(case: Case) -> dict[str, str]:
  """Faults that a batch shows: name of `NAMES` -> what was seen. Empty if all is well."""
  for check in (_mask, _rows, _key):
    if found := check(case):
      return found  # what comes later would follow from it, and name no fault of its own
  found = {}
  advantages = np.asarray(case.credit(case.rollout, case.values_PGT))
  found |= _dead(case, advantages)
  found |= _observations(case, advantages)
  found |= _std(case, advantages)
  return found


def _mask(case):
  """Trained tokens stand on action slots, and each has been seen."""
  rollout, slots = case.rollout, np.zeros(case.layout.length, bool)
  slots[[*case.layout.action_slots, *case.layout.summary_slots]] = True
  mask, valid = np.asarray(rollout.mask), np.asarray(rollout.valid)
  off = int((mask & ~(slots & valid)).sum())
  if not off:
    return {}
  return {'shifted mask': f'{off} of {int(mask.sum())} trained tokens are no actions'}


def _rows(case):
  """Prompts of a group are one, and log-probs are those of their own row."""
  rollout = case.rollout
  prompt = np.asarray(rollout.tokens)[:, :, 0, :case.layout.prompt]
  mixed = (prompt != prompt[:, :1]).any(axis=(1, 2))
  if mixed.any():
    return {'wrong row order': f'{int(mixed.sum())} of {len(mixed)} groups hold several prompts'}
  mask = np.asarray(types.stream(rollout.mask)).reshape(rollout.success.size, -1)
  old, new = (np.where(mask, np.asarray(x).reshape(mask.shape), 0.0)
              for x in (types.stream(rollout.logp), case.logp_PGT))
  if np.abs(old - new).max() <= _TOLERANCE * max(1.0, np.abs(new).max()):
    return {}
  differ = np.abs(old - new).max(axis=1) > _TOLERANCE
  elsewhere = [np.abs(new - row).max(axis=1).min() <= _TOLERANCE for row in old[differ]]
  if np.mean(elsewhere) > 0.5:
    return {'wrong row order': f'log-probs of {int(differ.sum())} rows are those of others'}
  return {'wrong log-probs': f'{int(differ.sum())} of {len(differ)} rows differ, by up to '
                             f'{np.abs(old - new).max():.3g} nats'}


def _key(case):
  """Samples of a group are independent draws."""
  rollout = case.rollout
  P, G = rollout.success.shape
  if G < 2:
    return {}
  tokens = np.where(np.asarray(types.stream(rollout.mask)), types.stream(rollout.tokens), -1)
  same = (tokens[:, :, None] == tokens[:, None]).all(axis=-1)
  pairs = int(same.sum() - P * G)
  # Given the same answers of the task another sample repeats a row with its probability; without
  # them less often. So this is an upper bound of the mean number of ordered pairs.
  chance = float(np.exp(np.minimum(np.asarray(case.logp_PGT).sum(axis=2), 0)).sum() * (G - 1))
  limit = chance + _SIGMAS * math.sqrt(chance * G) + _SIGMAS
  if pairs <= limit:
    return {}
  return {'leaked key': f'{pairs // 2} pairs of equal samples, where chance gives '
                        f'{chance / 2:.2g} at most'}


def _dead(case, advantages):
  """A group without spread has no credit, and not all groups are such."""
  if not case.grouped:
    return {}
  rollout = case.rollout
  reward = np.asarray(rollout.rewards).sum(axis=(2, 3))
  flat = np.ptp(reward, axis=1) <= 1e-5 * np.abs(reward).max(axis=1)
  paid = np.abs(advantages[flat]).max(initial=0.0)
  if paid > 1e-6:
    return {'dead group': f'groups without spread get advantages up to {paid:.3g}'}
  if flat.all():
    return {'dead group': f'none of {len(flat)} groups has any spread in its rewards'}
  return {}


def stretched(case: Case, times: int = 3) -> Case:
  """The same batch with every observation `times` as long: as many real tokens more, none trained.
  """
  old = case.layout
  new = dataclasses.replace(old, observation=times * old.observation)
  place = list(range(old.prompt + old.note))
  for k in range(old.slots):
    start = old.prompt + old.note + k * old.turn
    place += [*range(start, start + old.action)]
    place += [start + old.action + i % old.observation for i in range(new.observation)]
  place = jnp.asarray([*place, *range(old.length - old.note, old.length)])
  take = lambda x: x[..., place]
  rollout = case.rollout
  parts = {f: take(getattr(rollout, f)) for f in (
      'tokens', 'valid', 'mask', 'logp', 'rewards', 'turn', 'state_id')}
  spread = lambda x: None if x is None else types.stream(take(types.windows(x, old.length)))
  return dataclasses.replace(case, layout=new, rollout=dataclasses.replace(rollout, **parts),
                             logp_PGT=spread(case.logp_PGT), values_PGT=spread(case.values_PGT))


def _observations(case, advantages):
  """Credit does not count what the policy did not choose."""
  if not case.layout.observation:
    return {}
  longer = stretched(case)
  again = np.asarray(longer.credit(longer.rollout, longer.values_PGT))
  before = advantages[np.asarray(types.stream(case.rollout.mask))]
  after = again[np.asarray(types.stream(longer.rollout.mask))]
  gap = np.abs(before - after).max(initial=0.0)
  if gap <= _TOLERANCE * max(np.abs(before).max(initial=0.0), 1e-6):
    return {}
  return {'GAE through observations': f'longer observations change advantages by up to {gap:.3g}'}


def _std(case, advantages):
  """Spread of one number a sample in each group, over samples and over tokens."""
  mask = np.asarray(types.stream(case.rollout.mask))
  length = mask.sum(axis=2)
  wide = np.where(mask, advantages, -np.inf).max(axis=2)
  low = np.where(mask, advantages, np.inf).min(axis=2)
  if not case.grouped or (length == 0).any() or np.abs(wide - low).max() > 1e-6:
    return {}
  alive = np.ptp(wide, axis=1) > 1e-6
  uneven = alive & (np.ptp(length, axis=1) > 0)
  if not uneven.any():
    return {}
  a, n = wide[uneven], length[uneven]
  centre = (a * n).sum(axis=1, keepdims=True) / n.sum(axis=1, keepdims=True)
  square = (n * (a - centre) ** 2).sum(axis=1)
  total = n.sum(axis=1)
  by_token = [np.sqrt(square / total), np.sqrt(square / (total - 1))]
  by_row = [a.std(axis=1, ddof=d) for d in (0, 1)]
  one = lambda options: min(np.abs(x - 1).max() for x in options) < 5e-3
  if not one(by_token) or one(by_row):
    return {}
  return {'std over tokens': f'{len(a)} groups have spread 1 over tokens, '
                             f'{by_row[1].min():.2f} to {by_row[1].max():.2f} over samples'}


def table(cases: Sequence[tuple[str, Case]]) -> list[dict]:
  """Rows (case, fault, evidence): one for each fault that is found, or one without any."""
  made = []
  for name, case in cases:
    found = diagnose(case) or {'none': ''}
    made += [dict(case=name, flagged=fault, evidence=text) for fault, text in found.items()]
  return made
