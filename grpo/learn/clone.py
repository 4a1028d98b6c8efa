"""Warm start: imitate the scripted expert until a stated pass rate is reached.

All arms of a comparison start from the same weights, because nothing here depends on the method.
"""

import jax
import jax.numpy as jnp

from grpo import keys
from grpo import masked
from grpo import types
from grpo.learn import update
from grpo.models import scoring
from grpo.rollout import demos

__all__ = ['initial', 'train']


def initial(parts, key):
  """(params, opt_state) of one seed before the first cloning step."""
  params = parts.policy.init(keys.stream(key, 'policy'))
  return params, parts.clone_optimiser.init(params)


def train(parts, carry, key, step, done):
  """One cloning step of one seed: mean negative log-probability of the expert's tokens, in nats.

  Args:
    parts: build.Parts.
    carry: (params, opt_state).
    key: root key [] of the seed.
    step: int32 [], cloning step.
    done: bool []; where true, nothing changes any more.

  Returns:
    (carry, loss f32 []).
  """
  params, opt_state = carry
  c = parts.config['clone']
  expert = demos.demonstrate(parts.task, parts.layout, parts.knobs, keys.stream(key, 'clone'),
                             step=step, prompts=c['prompts'], samples=1, noise=c['noise'],
                             forget=parts.config['window']['forget'])
  mask_PGT = types.stream(expert.mask)

  def loss(params):
    logp = scoring.logps(parts.policy, params, expert, parts.layout,
                         parts.config['sample']['temperature'])
    return masked.mean(-types.stream(logp), mask_PGT)

  value, grads = jax.value_and_grad(loss)(params)
  params, opt_state, _ = update.apply(parts.clone_optimiser, params, opt_state, grads,
                                      ~done & jnp.isfinite(value))
  return (params, opt_state), value
