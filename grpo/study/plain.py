"""GRPO written by hand, to see what the composition of slots costs: nothing, or it is a fault.

One plain function for a step of configs/grpo.py with one update: the sampler and the model of this
repository, then z-scores, clipped ratios, means and AdamW spelled out, without a slot, a filter, a
delay line, a counter or a metric but the reward and the loss. A test holds it to the same
parameters as the composed step.
"""

from collections.abc import Callable
import statistics
import time

import jax
import jax.numpy as jnp
import optax

from grpo import build
from grpo import keys
from grpo import types
from grpo.learn import step as steps
from grpo.models import scoring
from grpo.rollout import sampler
from grpo.study import machine

__all__ = ['step', 'compare']


def step(made: build.Parts) -> Callable:
  """(params, opt_state, key, step) -> (params, opt_state, mean reward, loss) of one GRPO step."""
  c = made.config
  prompts, group = c['sample']['prompts'], c['sample']['group']
  temperature, micro = c['sample']['temperature'], c['train']['micro']
  low, high = c['method']['surrogate']['low'], c['method']['surrogate']['high']

  def train(params, opt_state, key, index):
    rollout = sampler.sample(
        made.policy, params, made.task, made.layout, made.knobs, key, step=index, prompts=prompts,
        samples=group, temperature=temperature, version=index)
    mask_PGT, old_PGT = types.stream(rollout.mask), types.stream(rollout.logp)
    reward_PG = jnp.sum(types.stream(rollout.rewards), axis=2)
    mean_P1 = jnp.mean(reward_PG, axis=1, keepdims=True)
    std_P1 = jnp.std(reward_PG, axis=1, keepdims=True, ddof=1)
    size_P1 = jnp.max(jnp.abs(reward_PG), axis=1, keepdims=True)
    range_P1 = jnp.max(reward_PG, axis=1, keepdims=True) - jnp.min(reward_PG, axis=1, keepdims=True)
    flat_P1 = range_P1 <= 1e-5 * size_P1
    scaled_PG = (reward_PG - mean_P1) / jnp.where(flat_P1, 1.0, std_P1)
    advantage_PG = jnp.where(flat_P1, 0.0, scaled_PG)
    length_PG1 = jnp.maximum(jnp.sum(mask_PGT, axis=2, keepdims=True), 1)
    weight_PGT = mask_PGT / (length_PG1 * (prompts * group))

    def loss(params, part):
      rollout, old_PGT, advantage_PG, weight_PGT = part
      logp_PGT = types.stream(
          scoring.logps(made.policy, params, rollout, made.layout, temperature))
      ratio_PGT = jnp.exp(logp_PGT - old_PGT)
      gain_PGT = jnp.minimum(ratio_PGT * advantage_PG[..., None],
                             jnp.clip(ratio_PGT, 1 - low, 1 + high) * advantage_PG[..., None])
      return -jnp.sum(weight_PGT * gain_PGT)

    data = rollout, old_PGT, advantage_PG, weight_PGT
    if micro == 1:
      value, grads = jax.value_and_grad(loss)(params, data)
    else:
      parts = jax.tree.map(lambda x: x.reshape(micro, x.shape[0] // micro, *x.shape[1:]), data)
      zero = jnp.zeros([]), jax.tree.map(jnp.zeros_like, params)

      def body(total, part):
        return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(params, part)), None

      (value, grads), _ = jax.lax.scan(body, zero, parts)
    updates, opt_state = made.optimiser.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, jnp.mean(reward_PG), value

  return train


def compare(made: build.Parts, rounds: int = 8) -> dict:
  """Times the composed step against `step`, in alternating rounds of one process.

  Args:
    made: parts of GRPO with one update a batch, see `speed.parts`.
    rounds: timed steps of each; the two take turns, and which goes first does too.

  Returns:
    dict: seconds of both, their ratios (composed / plain) by median and by minimum and that of the
    median processor time, which neighbours disturb least, and the largest difference of the
    parameters after one step.
  """
  root = keys.root(0)
  composed = jax.jit(lambda state: steps.train(made, state)[0], donate_argnums=0)
  by_hand = jax.jit(step(made), donate_argnums=(0, 1))
  state = jax.jit(lambda key: steps.initial(made, key))(root)
  plain = jax.tree.map(jnp.copy, (state.params, state.opt_state))
  state = composed(state)
  plain = by_hand(*plain, root, jnp.int32(0))[:2]
  gaps = jax.tree.map(lambda a, b: jnp.max(jnp.abs(a - b)), state.params, plain[0])
  gap = max(float(x) for x in jax.tree.leaves(gaps))

  seconds, used = dict(composed=[], plain=[]), dict(composed=[], plain=[])
  share = machine.Share()
  share.take()
  for i in range(rounds):
    for name in ('composed', 'plain') if i % 2 else ('plain', 'composed'):
      start, busy = time.perf_counter(), time.process_time()
      if name == 'composed':
        state = jax.block_until_ready(composed(state))
      else:
        plain = jax.block_until_ready(by_hand(*plain, root, jnp.int32(i + 1)))[:2]
      seconds[name].append(time.perf_counter() - start)
      used[name].append(time.process_time() - busy)
  middle = {name: statistics.median(x) for name, x in seconds.items()}
  least = {name: min(x) for name, x in seconds.items()}
  work = {name: statistics.median(x) for name, x in used.items()}
  return dict(
      rounds=rounds, composed_s=middle['composed'], plain_s=middle['plain'],
      composed_min_s=least['composed'], plain_min_s=least['plain'],
      ratio=middle['composed'] / middle['plain'], ratio_min=least['composed'] / least['plain'],
      ratio_cpu=work['composed'] / work['plain'], foreign=share.take(), largest_gap=gap)
