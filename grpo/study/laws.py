"""How the time of a step may grow: one thing is varied, everything else is held.

Each law states the largest ratio that it allows, of a point to the one before it or to the first.
"""

from collections.abc import Sequence
import dataclasses

from grpo.study import work as works

__all__ = ['Law', 'LAWS', 'verdict']

_FEW = works.Work(prompts=4, micro=4)
_TINY = works.Work(layers=2, hidden=32, heads=2, kv_heads=1, head_dim=16, mlp=64, vocab=64,
                   prompts=4, group=4, prompt=8, completion=8)


@dataclasses.dataclass(frozen=True)
class Law:
  """Points to measure and the growth that is allowed.

  Attributes:
    varied: field of Work, or a name for what changes.
    points: (value, work) in growing order.
    key: what is compared: a key of speed.measure.
    limit: largest allowed ratio, one for each point but the first; the last one is repeated.
    against: what a point is compared with: 'last', the one before it, or 'first'.
    alone: whether sampling is timed alone too.
  """
  varied: str
  points: Sequence[tuple]
  key: str
  limit: Sequence[float]
  against: str = 'last'
  alone: bool = False


def _vary(work, name, values, key, limit, **kwargs):
  points = [(v, dataclasses.replace(work, **{name: v})) for v in values]
  return Law(name, points, key, limit, **kwargs)


def _turns(count):
  """The same number of new tokens, in `count` turns: action and observation share them equally."""
  return dataclasses.replace(_FEW, completion=128 // count, observation=128 // count, turns=count)


def _windows(count):
  """Windows of five turns, the first of which is copied from the last one, and their summaries."""
  return dataclasses.replace(_FEW, completion=16, observation=16, turns=1 + 4 * count,
                             windows=count, summary=8 if count > 1 else 0)


def _worth(count):
  """Positions that `count` windows read, in those of one."""
  many, one = (works.layout(_windows(n)) for n in (count, 1))
  return many.stream / one.stream


LAWS = {
    'group': _vary(_FEW, 'group', (2, 4, 8, 16, 32), 'step_s', (2.2,)),
    'shared-prompt': _vary(dataclasses.replace(_FEW, prompt=512), 'group', (1, 8), 'step_s',
                           (1.7,)),
    'prompt': _vary(_FEW, 'prompt', (32, 128, 512), 'step_s', (4.0, 16.0), against='first'),
    'completion-train': _vary(_FEW, 'completion', (128, 256, 512, 1024), 'train_s',
                              (2.2, 2.4, 2.8), alone=True),
    'completion-generate': _vary(_FEW, 'completion', (128, 256, 512, 1024), 'generate_s',
                                 (2.4, 3.0, 3.6), alone=True),
    'memory': _vary(_FEW, 'completion', (256, 512, 1024), 'peak_rss_mib', (2.2,)),
    'turns': Law('turns', [(n, _turns(n)) for n in (1, 2, 4, 8, 16)], 'step_s', (1.25,),
                 against='first'),
    'horizon': _vary(dataclasses.replace(_FEW, completion=8, observation=8), 'turns',
                     (1, 2, 4, 8, 16), 'step_s', (2.3,)),
    'windows': Law('windows', [(n, _windows(n)) for n in (1, 2, 4, 8)], 'step_s',
                   tuple(1.3 * _worth(n) for n in (2, 4, 8)), against='first'),
    'lag': _vary(_FEW, 'lag', (0, 8), 'step_s', (1.1,)),
    'pool': Law('lag', [(0, _FEW), (8, dataclasses.replace(_FEW, lag=8, delay='by_length'))],
                'step_s', (1.1,)),
    'seeds': _vary(_TINY, 'seeds', (1, 2, 4, 8, 16), 'step_s', (1.8, 3.6, 7.2, 14.4),
                   against='first'),
    'seeds-small': _vary(_FEW, 'seeds', (1, 2, 4), 'step_s', (2.3, 4.6), against='first'),
    'depth': _vary(dataclasses.replace(_TINY, scan=True), 'layers', (4, 8, 16, 32), 'compile_s',
                   (1.3,), against='first'),
    'early': _vary(dataclasses.replace(_FEW, completion=512), 'stops', (0, 2, 32), 'generate_s',
                   (1.05, 1.05), against='first', alone=True),
}


def verdict(law: Law, measured: Sequence[dict]) -> dict:
  """Growth, the limit of each point, and whether all hold."""
  found = [point[law.key] for point in measured]
  bases = found[:-1] if law.against == 'last' else found[:1] * (len(found) - 1)
  growth = [b / a for a, b in zip(bases, found[1:], strict=True)]
  limit = [law.limit[min(i, len(law.limit) - 1)] for i in range(len(growth))]
  return {'key': law.key, 'values': [value for value, _ in law.points], 'found': found,
          f'against_{law.against}': growth, 'limit': limit,
          'holds': all(g <= top for g, top in zip(growth, limit, strict=True))}
