"""What a run has consumed: tokens, and floating-point operations counted from those it has read.

A multiply-add is 2. A backward pass costs two forward passes. The mean attention span of a token is
taken to be half a window. Counted are useful tokens: padding that a program also computes is not.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from grpo import types
from grpo.learn import state as states
from grpo.objective import memory
from grpo.objective import needs
from grpo.rollout import compaction

__all__ = ['spent', 'count']


def spent(parts, counters: Mapping[str, int], config: Mapping[str, Any]) -> tuple[float, float]:
  """FLOPs of policy and critic since the start of a run.

  Args:
    parts: build.Parts.
    counters: numbers of learn/state.COUNTERS.
    config: nested dicts.

  Returns:
    (policy, critic); critic is 0 without one. Policy: sampling once, an update three times (forward
    and backward) each epoch, and once each for a reference, for recomputed anchors and for
    entropies or answers that credit reads, and once an episode of each prompt for every memory that
    scores one again. Critic: values once, an update three times for each of
    its passes. Episodes that are played and not trained on cost their sampling only; they are taken
    to be as long as the others. Greedy and reference episodes read the prompts again, and rows of a
    branch plan share theirs.
  """
  prompt, rows = counters['prompt_tokens'], counters['context_tokens']
  span = parts.layout.length / 2
  forward = parts.policy.flops(prompt, rows, span)
  update, method = config['train'], config['method']
  extra = (method['old'] == 'recomputed') + needs.reference(parts.method)
  extra += needs.entropy(parts.method) + needs.answer(parts.method)
  of_prompts, of_rows = _trained(parts, config['sample'])
  one = prompt * of_prompts, rows * of_rows / config['sample']['group'], span
  seen = prompt * of_prompts, rows * of_rows, span
  policy = forward + parts.policy.flops(*seen) * (3 * update['epochs'] + extra)
  policy += parts.policy.flops(*one) * memory.again(parts.method.memory)
  critic = 0.0
  if parts.critic is not None:
    critic = parts.critic.flops(*seen) * (1 + 3 * parts.method.critic.updates)
  return policy, critic


def _trained(parts, sample):
  """Shares that credit sees of the prompts and of the episodes of a step; no filter is counted."""
  rows = sample['group'] if parts.branch is None else parts.branch.rows
  reads = sample['over'] + (sample['greedy'] > 0) + (sample['reference'] > 0)
  played = sample['over'] * rows + sample['greedy'] + sample['reference']
  return 1 / reads, sample['group'] / played


def count(parts, counters, sampled, credit):
  """Adds what a step consumed. `sampled` holds its rollouts, trained on or not."""
  c, size = parts.config, parts.layout.prompt
  totals = dict(rollouts=0, prompt_tokens=0, context_tokens=0, sampled_tokens=0)
  for rollout in sampled:
    if rollout is None:
      continue
    valid = rollout.valid
    # A prompt is read once a group in each of its windows that any sample reached.
    reached = jnp.any(valid[..., size:], axis=(1, 3))
    totals['rollouts'] += rollout.success.size
    totals['prompt_tokens'] += jnp.sum(jnp.any(valid[..., :size], axis=1) & reached[..., None])
    totals['context_tokens'] += jnp.sum(valid[..., size:])
    chosen = rollout.mask
    if parts.layout.note:  # a summary is sampled, trained on or not
      chosen |= rollout.valid & compaction.places(parts.layout)
    if parts.task.scored is not None:  # so were the answers that could not be scored
      spoken_L = np.isin(np.arange(parts.layout.length), parts.layout.action_slots)
      chosen |= valid & ~types.scored(rollout)[..., None, None] & spoken_L[None, None, None]
    totals['sampled_tokens'] += jnp.sum(chosen)
  trained = jnp.sum(credit.mask_PGT) * c['train']['epochs']
  return states.count(counters, trained_tokens=trained, **totals)
