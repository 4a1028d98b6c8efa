"""Which methods may train on data of another policy, and say so once: rules for grpo/check.py."""

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ['rules', 'WEIGHTS', 'MASKS']

# Corrections that multiply by the ratio of the anchor to the sampler, at one level or another, and
# those whose weight is 0 or 1. A mask leaves what it keeps as biased as it was.
WEIGHTS = ('tis', 'icepop')
MASKS = ('m2po', 'reject')


def rules(m: Mapping[str, Any], s: Mapping[str, Any],
          u: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
  """Pairs of (broken, what to tell the user), from the sections method, sample and train."""
  found = [f'{label} ({x["name"]})' for label, x in m['correction'].items()
           if x['name'] in WEIGHTS]
  yield len(found) > 1, (
      f'method.correction: {" and ".join(found)} each multiply by the ratio of the anchor to the '
      f'sampler, which would count twice: keep one; {" and ".join(MASKS)} only mask, and go with '
      'any')
  recomputed = m['old'] == 'recomputed'
  blind = [f'method.{slot}={name}' for slot, name in (('surrogate', 'reinforce'), ('ratio', 'none'))
           if m[slot]['name'] == name]
  what = blind[0] if blind else ''
  masks = ', '.join(x['name'] for x in m['correction'].values() if x['name'] in MASKS)
  only = f', nor does method.correction ({masks}), which only masks' if masks else ''
  yield bool(blind) and s['lag'] > 0 and not (found and recomputed), (
      f'sample.lag={s["lag"]} trains on stale rollouts, and {what} does not correct for it{only}: '
      f'use a surrogate with a ratio, method.old=recomputed with one of {", ".join(WEIGHTS)} as a '
      'method.correction, or lag 0')
  yield bool(blind) and u['minibatches'] * u['epochs'] > 1, (
      f'{what} has no ratio: train.minibatches and train.epochs must be 1, got {u["minibatches"]} '
      f'and {u["epochs"]}')
  yield s['lag'] > 0 and recomputed and not m['correction'], (
      'method.old=recomputed hides staleness: with sample.lag above 0 the anchor must be '
      'the sampler, or a method.correction has to weigh the difference or bound it')
