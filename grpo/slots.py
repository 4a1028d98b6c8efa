"""Names to slot functions: a method's section of a config becomes an `objective.method.Method`."""

from collections.abc import Mapping, Sequence
import difflib
import functools
import inspect
import types
import typing
from typing import Any

from grpo import paths
from grpo.objective import advantages
from grpo.objective import agents
from grpo.objective import aggregate
from grpo.objective import anchors
from grpo.objective import auxiliary
from grpo.objective import baselines
from grpo.objective import chunks
from grpo.objective import corrections
from grpo.objective import critic as critics
from grpo.objective import filters
from grpo.objective import gae
from grpo.objective import gates
from grpo.objective import kl
from grpo.objective import memory
from grpo.objective import method as methods
from grpo.objective import quadratic
from grpo.objective import ratios
from grpo.objective import returns
from grpo.objective import rewards
from grpo.objective import surrogates
from grpo.objective import trees
from grpo.objective import trust
from grpo.objective import weigh

__all__ = ['method', 'slot', 'nearest', 'fits']


def nearest(name: str, names) -> str:
  """'; nearest: ...' for a misspelt name or path, or the list of all names."""
  names = sorted(names)
  close = paths.namesakes(name, names) + difflib.get_close_matches(name, names, n=3, cutoff=0.5)
  if close:
    return f'; nearest: {", ".join(list(dict.fromkeys(close))[:3])}'
  if not names:
    return '; it takes nothing'
  return f'; allowed: {", ".join(names)}' if len(names) <= 40 else ''


def _pick(modules, name: str, where: str):
  """The function of that name in a module, or in one of several."""
  modules = modules if isinstance(modules, tuple) else (modules,)
  found = {n: getattr(module, n) for module in modules for n in module.__all__}
  if name not in found:
    raise ValueError(f'{where}: unknown name {name!r}{nearest(name, found)}')
  return found[name]


def fits(kind, value) -> bool:
  """Whether a value can be an argument of that kind; traced arrays are numbers."""
  if isinstance(kind, types.UnionType):
    return any(fits(one, value) for one in typing.get_args(kind))
  if kind is types.NoneType:
    return value is None
  if kind in (int, float):
    other = (str, bool, Mapping, Sequence, types.NoneType, *((float,) if kind is int else ()))
    return not isinstance(value, other)
  if kind in (str, bool):
    return isinstance(value, kind)
  if typing.get_origin(kind) in (Sequence, tuple):
    return isinstance(value, (list, tuple)) and all(
        fits(typing.get_args(kind)[0], item) for item in value)
  return True


def slot(module, spec: Mapping[str, Any], where: str, derived: Mapping[str, Any] | None = None):
  """The function named by a slot, with its keyword arguments bound.

  `derived` holds arguments that follow from other parts; a function takes those that it names.
  """
  function = _pick(module, spec['name'], f'{where}.name')
  given = {k: v for k, v in spec.items() if k != 'name'}
  allowed = {k: p for k, p in inspect.signature(function).parameters.items()
             if p.kind is inspect.Parameter.KEYWORD_ONLY}
  for key in given:
    if key not in allowed:
      raise ValueError(f'{where}: {spec["name"]} takes no {key!r}{nearest(key, allowed)}')
    if not fits(allowed[key].annotation, given[key]):
      raise ValueError(f'{where}.{key}: must be {inspect.formatannotation(allowed[key].annotation)}'
                       f', got {given[key]!r}')
  bound = {k: v for k, v in (derived or {}).items() if k in allowed} | given
  missing = [k for k, p in allowed.items() if p.default is p.empty and k not in bound]
  if missing:
    raise ValueError(f'{where}: {spec["name"]} needs {", ".join(missing)}')
  return functools.partial(function, **bound)


def _slots(module, labelled, where: str, derived=None):
  return tuple(slot(module, labelled[k], f'{where}.{k}', derived) for k in sorted(labelled))


def method(spec, layout):
  """The composition of slots."""
  counts = dict(count=None, turns=layout.max_turns, segments=layout.segments,
                tokens=layout.stream)
  chunk_counts = dict(turn=layout.max_turns, segment=layout.segments)
  chunk = dict(spec['chunk'])
  if chunk['name'] in chunk_counts:
    counts['count'] = chunk_counts[chunk['name']]
  elif chunk['name'] == 'fixed':
    counts['count'] = -(-layout.max_trained // chunk['length'])
  elif chunk['name'] == 'turns':
    counts['count'] = -(-layout.max_turns // chunk['length'])
  derived = {k: v for k, v in counts.items() if v is not None}
  for name in ('kl', 'chunk', 'returns', 'advantages', 'ratio', 'surrogate', 'aggregate', 'branch'):
    if not isinstance(spec[name], Mapping) or 'name' not in spec[name]:
      raise ValueError(f'method.{name}: a slot is dict(name=..., arguments)')
  return methods.Method(
      shape=_slots(rewards, spec['shape'], 'method.shape', dict(max_length=layout.max_trained)),
      filter=_slots(filters, spec['filter'], 'method.filter'),
      chunk=slot(chunks, chunk, 'method.chunk', derived),
      returns=slot((returns, gae), spec['returns'], 'method.returns'),
      advantages=slot((advantages, baselines, anchors, agents, trees), spec['advantages'],
                       'method.advantages'),
      old=spec['old'],
      ratio=slot(ratios, spec['ratio'], 'method.ratio', derived),
      surrogate=slot((surrogates, trust, quadratic), spec['surrogate'], 'method.surrogate'),
      kl=slot(kl, spec['kl'], 'method.kl'),
      kl_coef=spec['kl_coef'],
      entropy_coef=spec['entropy_coef'],
      aggregate=slot(aggregate, spec['aggregate'], 'method.aggregate',
                     dict(length=layout.max_trained, window=layout.length)),
      auxiliary=_slots(auxiliary, spec['auxiliary'], 'method.auxiliary'),
      critic=_critic_spec(spec['critic']),
      correction=_slots(corrections, spec['correction'], 'method.correction'),
      gate=_slots(gates, spec['gate'], 'method.gate'),
      weigh=_slots(weigh, spec['weigh'], 'method.weigh'),
      memory=tuple(zip(sorted(spec['memory']), (make() for make in _slots(
          memory, spec['memory'], 'method.memory', dict(prompt=layout.prompt))))))


def _critic_spec(spec):
  if spec['name'] == 'none':
    return None
  if spec['name'] != 'value':
    raise ValueError(f'method.critic.name: allowed are none, value; got {spec["name"]!r}')
  return critics.CriticSpec(**{k: v for k, v in spec.items() if k != 'name'})
