"""Forward passes of a step: what credit and memories read, scored before anything is updated."""

import jax
import jax.numpy as jnp

from grpo import keys
from grpo import types
from grpo.models import scoring
from grpo.objective import memory as memories
from grpo.objective import needs
from grpo.tasks import schedules

__all__ = ['scores', 'answers', 'memory']


def scores(parts, state, rollout):
  """Anchor log-probs, reference log-probs, values, bootstrap values and entropies of a rollout."""
  temperature = parts.config['sample']['temperature']
  old = types.stream(rollout.logp)
  if parts.method.old == 'recomputed':
    old = types.stream(
        scoring.logps(parts.policy, state.params, rollout, parts.layout, temperature))
  reference = values = last = entropy = None
  if needs.entropy(parts.method):
    entropy = types.stream(scoring.score(parts.policy, state.params, rollout, parts.layout,
                                         temperature)[1])
  if state.reference is not None:
    reference = types.stream(
        scoring.logps(parts.policy, state.reference, rollout, parts.layout, temperature))
  if parts.method.old == 'reference':
    old = reference
  if parts.critic is not None:
    values, last = scoring.values_and_last(parts.critic, state.critic_params, rollout, parts.layout)
    values = types.stream(values)
  return jax.lax.stop_gradient((old, reference, values, last, entropy))


def answers(parts, state, rollout):
  """Probability, before each turn, that the policy answers right now; of the instance as reset."""
  def one(step, prompt):
    key = keys.stream(state.key, 'task', step, prompt)
    knobs = schedules.knobs(parts.schedule, parts.knobs, step)
    return parts.task.answer(parts.task.reset(key, knobs)[0])

  answer_P = jax.vmap(one)(rollout.version[:, 0], rollout.prompt_id[:, 0])
  logp = scoring.answers(parts.policy, state.params, rollout, parts.layout,
                         parts.config['sample']['temperature'], answer_P)
  return jax.lax.stop_gradient(jnp.exp(types.stream(logp)))


def memory(parts, state, rollout, old, reference, ready):
  """The memories of the method after this batch; episodes they ask for are scored again."""
  method = parts.method
  if not method.memory:
    return None
  again = {
      label: jax.lax.stop_gradient(types.stream(scoring.logps(
          parts.policy, state.params, past, parts.layout, parts.config['sample']['temperature'])))
      for label, past in memories.past(state.memory, method, rollout).items()}
  seen = memories.Seen(rollout=rollout, old_logp_PGT=old, ref_logp_PGT=reference,
                       past_logp_PGT=again)
  return memories.remember(state.memory, method, seen, ready)
