"""Floating-point operations that a run has spent, counted from the tokens it has read.

A multiply-add is 2. A backward pass costs two forward passes. The mean attention span of a token is
taken to be half a window. Counted are useful tokens: padding that a program also computes is not.
"""

from collections.abc import Mapping
from typing import Any

from grpo.objective import needs

__all__ = ['spent']


def spent(parts, counters: Mapping[str, int], config: Mapping[str, Any]) -> tuple[float, float]:
  """FLOPs of policy and critic since the start of a run.

  Args:
    parts: build.Parts.
    counters: numbers of learn/state.COUNTERS.
    config: nested dicts.

  Returns:
    (policy, critic); critic is 0 without one. Policy: sampling once, an update three times (forward
    and backward) each epoch, and once each for a reference, for recomputed anchors and for
    entropies that credit reads. Critic:
    values once, an update three times for each of its passes.
  """
  prompt, rows = counters['prompt_tokens'], counters['context_tokens']
  span = parts.layout.length / 2
  forward = parts.policy.flops(prompt, rows, span)
  update, method = config['train'], config['method']
  extra = (method['old'] == 'recomputed') + needs.reference(parts.method)
  extra += needs.entropy(parts.method)
  policy = forward * (1 + 3 * update['epochs'] + extra)
  critic = 0.0
  if parts.critic is not None:
    critic = parts.critic.flops(prompt, rows, span) * (1 + 3 * parts.method.critic.updates)
  return policy, critic
