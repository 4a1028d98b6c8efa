"""Knobs that follow the training step: the section `schedule` of a config, knob name -> slot.

A function maps the step at which an episode is sampled to the value of the knob, in place of the
one in `task`. A curriculum is a ramp of a size knob; a change of what is rewarded is stairs.
Everything that is played in training and at its log points follows the schedule; cloning and tests
elsewhere take the knobs that they are given.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ['stairs', 'ramp']


def stairs(step: jax.Array, *, at: Sequence[int], to: Sequence[float]) -> jax.Array:
  """to[i] from step at[i - 1] on, to[0] before: constant pieces, one more than the steps `at`.

  `at` rises. At step at[i] itself the new value holds already.
  """
  if len(to) != len(at) + 1 or list(at) != sorted(set(at)):
    raise ValueError(f'schedule: stairs takes rising steps and one value more than steps; got '
                     f'at={list(at)}, to={list(to)}')
  place = jnp.sum(jnp.asarray(step) >= jnp.asarray(at, jnp.int32)) if len(at) else 0
  return jnp.asarray(to, jnp.float32)[place]


def ramp(step: jax.Array, *, start: int, end: int, low: float, high: float) -> jax.Array:
  """`low` up to step `start`, `high` from step `end` on, a straight line in between.

  A knob that counts things is rounded down by its task.
  """
  if not start < end:
    raise ValueError(f'schedule: ramp must end after it starts; got start={start}, end={end}')
  share = jnp.clip((jnp.asarray(step) - start) / (end - start), 0.0, 1.0)
  return (low + (high - low) * share).astype(jnp.float32)


def knobs(schedule: Mapping[str, Any], values: Mapping[str, Any], step) -> dict[str, Any]:
  """The knobs at a step: those with a schedule replaced."""
  return {**values, **{name: function(step) for name, function in schedule.items()}}
