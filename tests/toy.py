"""Tiny tasks and models for the tests of sampling and scoring."""

import jax
import jax.numpy as jnp

from grpo import types
from grpo.models import transformer
from grpo.tasks import base

VOCAB = 11
STOPS = (7, 9)

TINY = transformer.Shape(layers=2, hidden=16, heads=4, kv_heads=2, head_dim=6, mlp=24, vocab=VOCAB)


def chatter(*, prompt=5, action=3, observation=2, turns=5, stops=STOPS, end_share=0.0):
  """A task that answers every turn with noise of its own, of varying length.

  State: (instance, turn, noise key, sum of tokens so far). Reward of a turn is its number of real
  tokens; the turn is the last one with probability `end_share`.
  """

  def reset(key, knobs):
    length = jax.random.randint(jax.random.fold_in(key, 0), (), 1, prompt + 1)
    tokens = jax.random.randint(jax.random.fold_in(key, 1), (prompt,), 1, VOCAB)
    valid = jnp.arange(prompt) >= prompt - length
    state = dict(instance=tokens.sum(), turn=jnp.int32(0), noise=jnp.uint32(0),
                 total=jnp.int32(0))
    return state, jnp.where(valid, tokens, 0), valid

  def reseed(state, key):
    return state | dict(noise=jax.random.bits(key, (), jnp.uint32))

  def step(state, action, valid, knobs):
    total = state['total'] + jnp.sum(jnp.where(valid, action, 0), dtype=jnp.int32)
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(3), state['noise']), total)
    length = jax.random.randint(jax.random.fold_in(key, 0), (), 1, max(observation, 1) + 1)
    seen = jnp.arange(observation) >= observation - length
    tokens = jax.random.randint(jax.random.fold_in(key, 1), (observation,), 1, VOCAB)
    over = jax.random.uniform(jax.random.fold_in(key, 2)) < knobs['end_share']
    state = state | dict(turn=state['turn'] + 1, total=total)
    return base.Step(state, jnp.where(seen, tokens, 0), seen, valid.sum(dtype=jnp.float32),
                     over.astype(jnp.float32), over, state['turn'] >= turns)

  def expert(state, key):
    return jnp.ones((action,), jnp.int32), jnp.ones((action,), bool)

  return base.Task(
      vocab=tuple(str(i) for i in range(VOCAB)), prompt_len=prompt, action_len=action,
      observation_len=observation, max_turns=turns, stop_ids=stops,
      knobs=dict(end_share=end_share), reset=reset, reseed=reseed, step=step,
      state_id=lambda state: state['total'].astype(jnp.uint32) * 31 + state['turn'].astype(
          jnp.uint32) + 1,
      expert=expert)


def layout(task, *, turns, segments=1, carry=0):
  return types.Layout(task.prompt_len, task.action_len, task.observation_len, turns, segments,
                      carry)
