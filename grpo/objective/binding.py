"""Slots as a method holds them: functions, or functions with keyword arguments bound."""

from collections.abc import Callable
import functools

__all__ = ['plain']


def plain(slot: Callable) -> Callable:
  """The function of a slot, without the arguments that a config has bound to it."""
  return slot.func if isinstance(slot, functools.partial) else slot
