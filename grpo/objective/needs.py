"""What a method asks of the step besides a rollout: extra forward passes and facts of the task."""

from grpo.objective import agents
from grpo.objective import baselines
from grpo.objective import binding
from grpo.objective import gae
from grpo.objective import kl
from grpo.objective import rewards

__all__ = ['reference', 'entropy', 'bonus', 'potential', 'answer']


def reference(method) -> bool:
  """Whether some slot reads log-probabilities or rewards of a reference policy."""
  shaped = any(binding.plain(f) is rewards.kl_in_reward for f in method.shape)
  valued = binding.plain(method.advantages) is baselines.minus_optimal_value
  return shaped or valued or method.old == 'reference' or binding.plain(method.kl) is not kl.none


def entropy(method) -> bool:
  """Whether credit reads entropies of the policy that is held fixed."""
  return binding.plain(method.advantages) is agents.empg


def bonus(method) -> bool:
  """Whether the loss pays for entropy. A traced coefficient may be anything."""
  return not (isinstance(method.entropy_coef, (int, float)) and method.entropy_coef == 0)


def potential(method) -> bool:
  """Whether credit reads a potential of the task."""
  return binding.plain(method.returns) is gae.potential_look_ahead


def answer(method) -> bool:
  """Whether credit reads the probability of the task's answer."""
  return binding.plain(method.returns) is gae.information_gain
