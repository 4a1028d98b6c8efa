"""Metrics on their way from the device to files.

On the device a metric is a types.Mean or a types.Peak, so that parts, windows and seeds add up
exactly. Here they are fetched, once a log point, divided once, and written under one step.
"""

from collections.abc import Iterable
import math
from typing import Any

import jax
import numpy as np

from grpo import types

__all__ = ['NonFinite', 'fetch', 'merge', 'finish', 'per_seed', 'check_finite', 'Writer',
           'values_of']

_FIELDS = ('step', 'seed', 'axis', 'at', 'nonfinite')  # of a record; all else are metrics


class NonFinite(RuntimeError):
  """A metric that is inf or NaN; `step` and `metric` say which one and when."""

  def __init__(self, step: int, metric: str, value: float = math.nan):
    super().__init__(f'step {step}: {metric} is {value}')
    self.step = step
    self.metric = metric


def fetch(tree: Any) -> Any:
  """Device to host, explicitly: the only place where the loop waits for a number."""
  return jax.device_get(tree)


def _is_metric(x):
  return isinstance(x, (types.Mean, types.Peak))


def _named(tree):
  """(name, metric) pairs; nested dictionaries join their keys by '/'."""
  pairs, _ = jax.tree.flatten_with_path(tree, is_leaf=_is_metric)
  return [(jax.tree_util.keystr(path, simple=True, separator='/'), x) for path, x in pairs]


def merge(first: Any, second: Any) -> Any:
  """Two fetched windows as one: totals and counts add in float64, peaks are maximised."""
  def one(a, b):
    if isinstance(a, types.Mean):
      return types.Mean(np.add(a.total, b.total, dtype=np.float64),
                        np.add(a.count, b.count, dtype=np.float64))
    return types.Peak(np.maximum(a.value, b.value))
  return jax.tree.map(one, first, second, is_leaf=_is_metric)


def finish(tree: Any) -> dict[str, float]:
  """Fetched metrics to numbers, pooled over all axes (steps, seeds).

  A mean over nothing and a peak of nothing have no value: they are left out.
  """
  out = {}
  for name, x in _named(tree):
    if isinstance(x, types.Mean):
      count = np.sum(x.count, dtype=np.float64)
      if count != 0:
        out[name] = float(np.sum(x.total, dtype=np.float64) / count)
    elif isinstance(x, types.Peak):
      peak = float(np.max(np.asarray(x.value, np.float64), initial=-np.inf))
      if peak != -math.inf:
        out[name] = peak
    else:
      raise ValueError(f'metric {name} must be a types.Mean or a types.Peak, got '
                       f'{type(x).__name__}')
  return out


def per_seed(tree: Any) -> list[dict[str, float]]:
  """Fetched metrics whose leaves lead with an axis of seeds: the numbers of each seed."""
  seeds = len(jax.tree.leaves(tree)[0])
  return [finish(jax.tree.map(lambda x: x[i], tree)) for i in range(seeds)]


def check_finite(step: int, values: dict[str, float]) -> None:
  """Raises NonFinite for the first metric, in the order given, that is not a finite number."""
  for name, value in values.items():
    if not math.isfinite(value):
      raise NonFinite(step, name, value)


class Writer:
  """One writer for all sinks. Every point has a step, and no metric ever goes back.

  Write everything that belongs to a step before saving its checkpoint: a resume from step n keeps
  what was written under steps up to n.
  """

  def __init__(self, sinks: Iterable):
    self._sinks = list(sinks)
    self._last = {}  # (seed, name) -> (axis, step on it)
    for sink in self._sinks:
      for record in getattr(sink, 'kept', ()):
        self._note(record)

  def __enter__(self) -> 'Writer':
    return self

  def __exit__(self, kind, error, trace) -> None:
    self.close()

  def write(self, step: int, values: dict[str, float], *, seed: int | None = None,
            axis: tuple[str, int] | None = None) -> None:
    """Writes one record to all sinks.

    Args:
      step: training steps done, the clock of the run.
      values: name -> number. One that is not finite is written as null and listed.
      seed: whose numbers they are; None when pooled.
      axis: (name, position), for metrics that have their own axis; `step` by default. A metric
        keeps its axis for good.
    """
    name, at = axis or ('step', step)
    record = {'step': int(step)}
    record |= {} if seed is None else {'seed': int(seed)}
    record |= {} if axis is None else {'axis': name, 'at': int(at)}
    clash = [key for key in values if key in _FIELDS]
    if clash:
      raise ValueError(f'{clash[0]!r} cannot name a metric, it is a field of records')
    bad = [key for key, value in values.items() if not math.isfinite(value)]
    record |= {key: None if key in bad else _number(value) for key, value in values.items()}
    record |= {'nonfinite': bad} if bad else {}
    self._note(record)
    for sink in self._sinks:
      sink.write(record)

  def flush(self) -> None:
    """Everything written so far is on disk on return. Call it before saving a checkpoint."""
    for sink in self._sinks:
      sink.flush()

  def close(self) -> None:
    """Flushes and closes all sinks."""
    for sink in self._sinks:
      sink.close()

  def _note(self, record):
    axis, at = record.get('axis', 'step'), record.get('at', record['step'])
    for name in values_of(record):
      key = record.get('seed'), name
      known, last = self._last.get(key, (axis, -math.inf))
      if known != axis:
        raise ValueError(f'metric {name} belongs to axis {known!r}, not {axis!r}')
      if at <= last:
        raise ValueError(f'metric {name} was already written for {axis} {last}, '
                         f'and {axis} {at} does not come after it')
    self._last |= {(record.get('seed'), name): (axis, at) for name in values_of(record)}


def values_of(record: dict) -> dict:
  """The metrics of a record, without its fields."""
  return {k: v for k, v in record.items() if k not in _FIELDS}


def _number(value):
  return int(value) if isinstance(value, (bool, int, np.integer, np.bool_)) else float(value)
