"""Plain data as JSON, both ways: what may pass between a sandbox and us.

Plain are None, bool, int, float, complex, str, bytes, list, tuple, dict, set and frozenset, of
those types exactly: an instance of a subclass could bring its own `__eq__`. (Dicts of the module
`collections` are sent as dicts.) Numbers come back bit for bit, infinities and NaN included. Only
plain values can come out of `decode`, whatever bytes went in; nothing is evaluated, imported or
unpickled. The limits keep hostile bytes from costing much:

  MAX_BYTES   of a message
  MAX_NODES   values in it, containers included
  MAX_DEPTH   of nesting
  MAX_SAME    members of a set or keys of a dict with the same hash. A thousand ints that differ by
              multiples of 2^61 - 1 have one hash, and a set of n of them takes n^2 comparisons.
"""

import collections
import json
from typing import Any

__all__ = ['NotPlain', 'decode', 'encode']

MAX_BYTES = 1 << 20
MAX_NODES = 100_000
MAX_DEPTH = 50
MAX_SAME = 16
_DICTS = (dict, collections.Counter, collections.defaultdict, collections.OrderedDict)
_TAGS = {tuple: 't', set: 's', frozenset: 'f'}


class NotPlain(ValueError):
  """A value that is not plain, or too large, or bytes that are no encoding of one."""


class _Writer:
  """Packs one value and counts its nodes: a list of two references to a list, fifty times over, is
  fifty lists and 2^50 nodes."""

  def __init__(self):
    self.nodes = 0

  def many(self, values, depth):
    return [self.value(x, depth - 1) for x in values]

  def value(self, value, depth):
    """What JSON says of one node."""
    self.nodes += 1
    if self.nodes > MAX_NODES:
      raise NotPlain(f'more than {MAX_NODES} values')
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
      return value
    if depth <= 0:
      raise NotPlain('nested too deep, or contains itself')
    if kind is list:
      return self.many(value, depth)
    if kind in (tuple, set, frozenset):
      return {_TAGS[kind]: self.many(value, depth)}
    if kind in _DICTS:
      return {'d': [self.many(pair, depth) for pair in value.items()]}
    if kind is bytes:
      return {'b': value.hex()}
    if kind is complex:
      return {'c': [value.real, value.imag]}
    raise NotPlain(f'a {kind.__name__} is not plain data')


def encode(value: Any) -> bytes:
  """Raises NotPlain for what is not plain or too large."""
  try:
    data = json.dumps(_Writer().value(value, MAX_DEPTH), separators=(',', ':')).encode('ascii')
  except NotPlain:
    raise
  except (ValueError, RecursionError) as error:  # such as an int of more than 4300 digits
    raise NotPlain(str(error)) from error
  if len(data) > MAX_BYTES:
    raise NotPlain(f'{len(data)} bytes; {MAX_BYTES} are allowed')
  return data


def _spread(items):
  """The items, if few of them share a hash."""
  try:
    hashes = sorted(hash(x) for x in items)
  except TypeError as error:
    raise NotPlain(f'not hashable: {error}') from error
  if any(a == b for a, b in zip(hashes, hashes[MAX_SAME:])):
    raise NotPlain(f'more than {MAX_SAME} members with one hash')
  return items


class _Reader:
  """Unpacks one message and counts its nodes."""

  def __init__(self):
    self.nodes = 0

  def many(self, packed, depth):
    if type(packed) is not list:
      raise NotPlain('malformed')
    return [self.value(x, depth - 1) for x in packed]

  def value(self, packed, depth):
    """The value of one node of parsed JSON."""
    self.nodes += 1
    if self.nodes > MAX_NODES:
      raise NotPlain(f'more than {MAX_NODES} values')
    if type(packed) not in (list, dict):
      return packed
    if depth <= 0:
      raise NotPlain('nested too deep')
    if type(packed) is list:
      return self.many(packed, depth)
    if len(packed) != 1:
      raise NotPlain('malformed')
    (tag, inner), = packed.items()
    if tag == 't':
      return tuple(self.many(inner, depth))
    if tag == 's':
      return set(_spread(self.many(inner, depth)))
    if tag == 'f':
      return frozenset(_spread(self.many(inner, depth)))
    if tag == 'd':
      if type(inner) is not list or not all(type(x) is list and len(x) == 2 for x in inner):
        raise NotPlain('malformed')
      pairs = [(self.value(k, depth - 1), self.value(v, depth - 1)) for k, v in inner]
      _spread([k for k, _ in pairs])
      return dict(pairs)
    if tag == 'b' and type(inner) is str:
      return bytes.fromhex(inner)
    if (tag == 'c' and type(inner) is list and len(inner) == 2
        and all(type(x) is float for x in inner)):
      return complex(*inner)
    raise NotPlain('malformed')


def decode(data: bytes) -> Any:
  """The plain value of an encoding. Raises NotPlain for all other bytes."""
  if len(data) > MAX_BYTES:
    raise NotPlain(f'more than {MAX_BYTES} bytes')
  try:
    return _Reader().value(json.loads(data.decode('ascii')), MAX_DEPTH)
  except NotPlain:
    raise
  except (ValueError, RecursionError) as error:
    raise NotPlain(f'malformed: {type(error).__name__}') from error
