"""What a method keeps from step to step: the slot `memory`, labelled.

Memories live in `TrainState.memory`, a dict of label to pytree of arrays: saved, restored and
placed like the rest of the state, and changed only inside the step. A slot function returns four
pure functions, a Memory. In a step, `recall` comes before credit and reads what earlier batches
left; `remember` comes after it and takes this batch in, so no baseline contains its own reward.

  initial(rollout)             the pytree; `rollout` may be shapes only
  recall(pytree, method, rollout) -> (method, baseline_PG | None)
  past(pytree, rollout)        episodes to score again under the current policy, or None
  remember(pytree, seen)       the new pytree
"""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grpo import masked
from grpo import types
from grpo.objective import binding
from grpo.objective import rewards

__all__ = ['running_mean', 'prompt_tracker', 'adaptive_kl']


@dataclasses.dataclass(frozen=True)
class Memory:
  """Four functions; see the module docstring."""
  initial: Callable
  recall: Callable
  remember: Callable
  past: Callable = lambda kept, rollout: None


@types.pytree
class Seen:
  """What a batch shows to the memories."""
  rollout: types.Rollout
  old_logp_PGT: jax.Array
  ref_logp_PGT: jax.Array | None
  past_logp_PGT: Any   # label -> log-probs now of what `past` returned


def running_mean(*, decay: float = 0.9) -> Memory:
  """Baseline b, the mean episode reward so far: b <- decay b + (1 - decay) mean_batch R.

  Williams 1992 (reinforcement comparison). The first batch sets it and is compared
  with 0.
  """
  def remember(kept, seen):
    reward_PG, on_PG = _rewards(seen.rollout)
    mean = masked.mean(reward_PG, on_PG)
    moved = jnp.where(kept['count'] > 0, decay * kept['mean'] + (1.0 - decay) * mean, mean)
    return dict(mean=moved, count=kept['count'] + 1)

  return Memory(
      initial=lambda rollout: dict(mean=jnp.zeros([]), count=jnp.zeros([], jnp.int32)),
      recall=lambda kept, method, rollout: (
          method, jnp.broadcast_to(kept['mean'], rollout.success.shape)),
      remember=remember)


def adaptive_kl(*, target: float, horizon: float) -> Memory:
  """Scale of every KL coefficient, in the loss and in the reward, driven to a target KL.

  scale <- scale (1 + clip(kl / target - 1, -0.2, 0.2) n / horizon), with kl the mean over the n
  episodes of the batch of sum_t (old - ref), in nats an episode. Ziegler et al. 2019,
  arXiv:1909.08593.
  """
  def recall(kept, method, rollout):
    del rollout
    shape = tuple(_scaled(f, kept['scale']) for f in method.shape)
    return dataclasses.replace(method, shape=shape, kl_coef=method.kl_coef * kept['scale']), None

  def remember(kept, seen):
    mask_PGT = types.stream(seen.rollout.mask)
    on_PG = jnp.any(mask_PGT, axis=2)
    kl_PG = masked.total(seen.old_logp_PGT - seen.ref_logp_PGT, mask_PGT, axis=2)
    gap = jnp.clip(masked.mean(kl_PG, on_PG) / target - 1.0, -0.2, 0.2)
    return dict(scale=kept['scale'] * (1.0 + gap * masked.count(on_PG) / horizon))

  return Memory(initial=lambda rollout: dict(scale=jnp.ones([])), recall=recall,
                remember=remember)


def prompt_tracker(*, prompt: int, slots: int = 256, least: float = 0.875, most: float = 0.96,
                   half: float = 0.06) -> Memory:
  """Success rate of each prompt as a Beta law that forgets with the drift of the policy.

  Single-stream SPO, arXiv:2509.13232. p = a / (a + b) is read first; then
  a <- rho a + r, b <- rho b + (1 - r), rho = clip(2^(-D / half), least, most), with D the mean over
  tokens of |logp when sampled - logp now| on the prompt's previous episode, which is kept here for
  that. Rewards must lie in [0, 1] and are clipped to it. The paper starts from offline samples;
  there are none here, so a = b = 1 / (2 (1 - least)).

  Args:
    prompt: positions of the prompt in a window; follows from the layout.
    slots: of the table. A prompt's slot is a hash of its tokens; prompts that share one share their
      estimate, so a task with many prompts wants many slots.
    least: smallest rho.
    most: largest rho.
    half: nats of drift after which half is forgotten.
  """
  def initial(rollout):
    episode = lambda x: jnp.zeros((slots, *x.shape[2:]), x.dtype)
    names = ('tokens', 'valid', 'mask', 'logp')
    start = jnp.full([slots], 0.5 / (1.0 - least), jnp.float32)
    return dict(solved=start, failed=start, **{n: episode(getattr(rollout, n)) for n in names})

  def recall(kept, method, rollout):
    slot_P = _slot(rollout, prompt, slots)
    p_P = (kept['solved'] / (kept['solved'] + kept['failed']))[slot_P]
    return method, jnp.broadcast_to(p_P[:, None], rollout.success.shape)

  def past(kept, rollout):
    slot_P = _slot(rollout, prompt, slots)
    seen_P111 = jnp.any(kept['mask'][slot_P], axis=(1, 2))[:, None, None, None]
    episode = {}
    for name in ('tokens', 'valid', 'mask', 'logp'):  # a prompt never met: any episode will do
      any_P1SL = getattr(rollout, name)[:, :1]
      episode[name] = jnp.where(seen_P111, kept[name][slot_P][:, None], any_P1SL)
    return dataclasses.replace(rollout, **episode)

  def remember(kept, seen, now_logp_P1T):
    rollout = seen.rollout
    slot_P = _slot(rollout, prompt, slots)
    reward_PG, on_PG = _rewards(rollout)
    reward_PG = jnp.clip(reward_PG, 0.0, 1.0)
    spread = functools.partial(jax.ops.segment_sum, segment_ids=slot_P, num_segments=slots)
    solved_N = spread(jnp.sum(jnp.where(on_PG, reward_PG, 0.0), axis=1))
    count_N = spread(masked.count(on_PG, axis=1))
    before_PT, mask_PT = (kept[n][slot_P].reshape(slot_P.size, -1) for n in ('logp', 'mask'))
    drift_P = masked.mean(jnp.abs(now_logp_P1T[:, 0] - before_PT), mask_PT, axis=1)
    rho_P = jnp.clip(jnp.exp2(-drift_P / half), least, most)
    rho_N = jnp.where(count_N > 0, jax.ops.segment_min(rho_P, slot_P, num_segments=slots), 1.0)
    # Of prompts that share a slot the last one leaves its first episode.
    row_P = jnp.where(on_PG[:, 0], jnp.arange(slot_P.size), -1)
    row_N = jax.ops.segment_max(row_P, slot_P, num_segments=slots)
    found_N11 = (row_N >= 0)[:, None, None]
    episode = {n: jnp.where(found_N11, getattr(rollout, n)[jnp.maximum(row_N, 0), 0], kept[n])
               for n in ('tokens', 'valid', 'mask', 'logp')}
    return dict(solved=rho_N * kept['solved'] + solved_N,
                failed=rho_N * kept['failed'] + count_N - solved_N, **episode)

  return Memory(initial=initial, recall=recall, past=past, remember=remember)


def initial(slots: tuple, rollout) -> dict | None:
  """Pytree of every label, or None without memories. `rollout` may be ShapeDtypeStructs."""
  return {label: memory.initial(rollout) for label, memory in slots} or None


def recall(kept: dict | None, method, rollout):
  """The method with what memories change in it, and the baseline that they keep, if one does."""
  baseline_PG = None
  for label, memory in method.memory:
    method, read = memory.recall(kept[label], method, rollout)
    baseline_PG = baseline_PG if read is None else read
  return method, baseline_PG


def past(kept: dict | None, method, rollout) -> dict:
  """Episodes to score again, by label."""
  found = {label: memory.past(kept[label], rollout) for label, memory in method.memory}
  return {label: x for label, x in found.items() if x is not None}


def again(slots: tuple) -> int:
  """Memories that have an episode of each prompt scored again in every step."""
  return sum(memory.past is not Memory.past for _, memory in slots)


def remember(kept: dict | None, method, seen: Seen, ready) -> dict | None:
  """The memories after a batch; unchanged where `ready` is false."""
  out = {}
  for label, memory in method.memory:
    again = seen.past_logp_PGT.get(label)
    new = memory.remember(kept[label], seen, *(() if again is None else (again,)))
    out[label] = jax.tree.map(lambda x, y: jnp.where(ready, x, y), new, kept[label])
  return jax.lax.stop_gradient(out) or None


def _rewards(rollout):
  """Reward of each episode on its trained tokens, and whether it has any."""
  mask_PGT = types.stream(rollout.mask)
  reward_PG = masked.total(types.stream(rollout.rewards), mask_PGT, axis=2)
  return reward_PG, jnp.any(mask_PGT, axis=2)


def _slot(rollout, prompt, slots):
  """Place of each prompt in a table of `slots` entries: a hash of its tokens, int32 [P]."""
  if prompt > rollout.tokens.shape[3]:
    raise ValueError(f'memory.prompt_tracker: prompt={prompt} must be at most '
                     f'{rollout.tokens.shape[3]}, the positions of a window')
  tokens_PL = rollout.tokens[:, 0, 0, :prompt].astype(jnp.uint32) + jnp.uint32(1)
  powers = np.array([pow(0x9E3779B1, i + 1, 2**32) for i in range(prompt)], np.uint32)
  hash_P = jnp.sum(tokens_PL * powers[None], axis=1, dtype=jnp.uint32)
  hash_P = (hash_P ^ (hash_P >> 15)) * jnp.uint32(0x85EBCA6B)
  return ((hash_P ^ (hash_P >> 13)) % jnp.uint32(slots)).astype(jnp.int32)


def _scaled(function, scale):
  """A bound shaping function, with its coefficient scaled if it is the KL term."""
  if binding.plain(function) is not rewards.kl_in_reward:
    return function
  return functools.partial(function, coef=function.keywords['coef'] * scale)
