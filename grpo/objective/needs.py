"""What a method asks of the step besides a rollout: extra forward passes and facts of the task."""

import functools

from grpo.objective import agents
from grpo.objective import gae
from grpo.objective import kl
from grpo.objective import rewards

__all__ = ['reference', 'entropy', 'potential']


def reference(method) -> bool:
  """Whether some slot reads log-probabilities of a reference policy."""
  shaped = any(_plain(f) is rewards.kl_in_reward for f in method.shape)
  return shaped or _plain(method.kl) is not kl.none


def entropy(method) -> bool:
  """Whether credit reads entropies of the policy that is held fixed."""
  return _plain(method.advantages) is agents.empg


def potential(method) -> bool:
  """Whether credit reads a potential of the task."""
  return _plain(method.returns) is gae.potential_look_ahead


def _plain(function):
  return function.func if isinstance(function, functools.partial) else function
