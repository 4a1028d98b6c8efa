"""Rollouts and methods for tests, made from arrays by token."""

import functools

import jax.numpy as jnp
import numpy as np

from grpo import types
from grpo.objective import advantages
from grpo.objective import aggregate
from grpo.objective import auxiliary
from grpo.objective import chunks
from grpo.objective import critic
from grpo.objective import filters
from grpo.objective import kl
from grpo.objective import method
from grpo.objective import ratios
from grpo.objective import returns
from grpo.objective import surrogates
from grpo.objective.context import Context

partial = functools.partial


def rollout(mask, rewards, *, turn=None, segments=1, success=None, truncated=None, version=0):
  """Rollout from streams [P,G,T]; the model's side of it is left empty."""
  mask = jnp.asarray(mask, bool)
  shape = (mask.shape[0], mask.shape[1])
  windows = lambda x: x.reshape(*shape, segments, -1)
  blank = jnp.zeros(mask.shape, jnp.int32)
  turn = jnp.where(mask, jnp.asarray(turn, jnp.int32), -1) if turn is not None else blank
  rewards = jnp.asarray(rewards)
  success = jnp.zeros(shape, rewards.dtype) if success is None else jnp.asarray(success)
  truncated = jnp.zeros(shape, bool) if truncated is None else jnp.asarray(truncated)
  return types.Rollout(
      tokens=windows(blank), valid=windows(jnp.ones(mask.shape, bool)), mask=windows(mask),
      logp=windows(jnp.zeros(mask.shape)), rewards=windows(rewards), turn=windows(turn),
      state_id=windows(blank.astype(jnp.uint32)), success=success, terminated=~truncated,
      truncated=truncated, version=jnp.broadcast_to(jnp.asarray(version, jnp.int32), shape),
      prompt_id=jnp.zeros(shape, jnp.int32), sample_id=jnp.zeros(shape, jnp.int32))


def context(valid, *, values=None, bootstrap=None, truncated=None, baseline=None):
  """Context of returns and advantages, [P,G,K]."""
  valid = jnp.asarray(valid, bool)
  truncated = jnp.zeros(valid.shape[:2], bool) if truncated is None else jnp.asarray(truncated)
  return Context(
      tokens_PGK=valid.astype(jnp.int32), lengths_PG=jnp.sum(valid, axis=2, dtype=jnp.int32),
      truncated_PG=truncated, state_id_PGK=jnp.zeros(valid.shape, jnp.uint32), values_PGK=values,
      bootstrap_PG=bootstrap, baseline=baseline)


def facts(reward, valid):
  """What filters know of rows [P,G] with these rewards; those that are not valid are empty."""
  zero = jnp.zeros_like(reward)
  return filters.Facts(
      reward_PG=reward, shaped_PG=reward, success_PG=zero, lengths_PG=valid.astype(jnp.int32),
      truncated_PG=zero > 0, version_PG=zero.astype(jnp.int32), now=jnp.int32(0))


def critic_spec(**changes):
  """A critic with Monte-Carlo targets."""
  return critic.CriticSpec(**(dict(
      lam=1.0, discount=1.0, updates=1, warmup=0, learning_rate=1e-3, freeze='', clip=0.0,
      start='policy') | changes))


def make(**changes):
  """GRPO with the slots that are given replaced."""
  slots = dict(
      shape=(), filter=(), chunk=chunks.whole, returns=returns.outcome,
      advantages=advantages.group_zscore, old='sampler', ratio=ratios.token,
      surrogate=partial(surrogates.ppo_clip, low=0.2, high=0.2), kl=kl.none, kl_coef=0.0,
      entropy_coef=0.0, aggregate=aggregate.sequence, auxiliary=(), critic=None)
  return method.Method(**(slots | changes))


def published(length=7):
  """The methods of the literature that the slots cover, for rows of at most `length` tokens."""
  dis = partial(surrogates.dis, low=0.3, high=5.0)
  dapo = partial(surrogates.ppo_clip, low=0.2, high=0.28)
  plain = dict(ratio=ratios.none, surrogate=surrogates.reinforce, aggregate=aggregate.sequence_sum)
  token_level = dict(chunk=chunks.token, aggregate=aggregate.token)
  return {
      'reinforce': make(advantages=advantages.raw, **plain),
      'rloo': make(advantages=advantages.leave_one_out, **plain),
      'grpo': make(kl=kl.k3, kl_coef=0.04),
      'dr_grpo': make(advantages=advantages.group_center,
                      aggregate=partial(aggregate.constant_length, length=length)),
      'dapo': make(filter=(filters.informative,), surrogate=dapo, aggregate=aggregate.token),
      'grpo_dis': make(surrogate=dis),
      'cispo': make(surrogate=partial(surrogates.cispo, low=1.0, high=0.28),
                    aggregate=aggregate.token),
      'gspo': make(ratio=ratios.sequence,
                   surrogate=partial(surrogates.ppo_clip, low=3e-4, high=4e-4)),
      'ppo': make(returns=partial(returns.lambda_return, lam=0.95),
                  advantages=advantages.critic_whiten,
                  critic=critic_spec(lam=0.95, clip=0.2), **token_level),
      'vapo': make(returns=partial(returns.adaptive_lambda_return, alpha=0.05),
                   advantages=advantages.critic_whiten, surrogate=dapo,
                   auxiliary=(partial(auxiliary.positive_nll, coef=0.1),),
                   critic=critic_spec(), **token_level),
      'sao': make(returns=partial(returns.adaptive_lambda_return, alpha=1.5),
                  advantages=advantages.critic, surrogate=dis, critic=critic_spec(updates=2),
                  **token_level),
      'horizon_chunked': make(
          chunk=partial(chunks.fixed, length=2, count=-(-length // 2)),
          returns=partial(returns.look_ahead, n=1, discount=0.9, bootstrap='group')),
  }


def draw(seed, prompts=3, samples=4, length=7, dtype=np.float32):
  """Random streams with holes in the mask, one empty row and one row of one token."""
  rng = np.random.default_rng(seed)
  shape = (prompts, samples, length)
  mask = rng.random(shape) < 0.65
  mask[0, 0], mask[-1, -1] = False, False
  mask[-1, -1, length // 2] = True
  logp = -rng.gamma(1.0, 1.0, shape)
  floats = dict(
      rewards=rng.choice([0.0, 0.1, 1.0, -0.5], shape) * mask, old=logp,
      logp=logp + 0.3 * rng.normal(size=shape), ref=logp + 0.3 * rng.normal(size=shape),
      values=rng.normal(size=shape), last=rng.normal(size=shape[:2]),
      success=(rng.random(shape[:2]) < 0.5) * 1.0, entropy=rng.random(shape))
  out = {k: v.astype(dtype) for k, v in floats.items()}
  return out | dict(mask=mask, turn=np.sort(rng.integers(0, 3, shape), axis=2),
                    truncated=rng.random(shape[:2]) < 0.3)


def credit(slots, x):
  """Credit of the arrays of `draw`."""
  return method.credit(
      slots, rollout(x['mask'], x['rewards'], turn=x['turn'], success=x['success'],
                     truncated=x['truncated']),
      old_logp_PGT=jnp.asarray(x['old']), ref_logp_PGT=jnp.asarray(x['ref']),
      values_PGT=jnp.asarray(x['values']), last_PG=jnp.asarray(x['last']))


def loss(slots, logp, x, credit_, weights):
  """Policy loss and metrics of the arrays of `draw`."""
  return method.policy_loss(slots, logp, jnp.asarray(x['entropy']), jnp.asarray(x['old']),
                            jnp.asarray(x['ref']), credit_, weights)
