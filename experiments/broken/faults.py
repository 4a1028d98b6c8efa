"""Batches and methods that are wrong on purpose, one fault each, and right ones beside them."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from configs import base
from grpo import build
from grpo import keys
from grpo import masked
from grpo import types
from grpo.learn import compiling
from grpo.models import scoring
from grpo.objective import advantages
from grpo.objective import method as methods
from grpo.objective import returns
from grpo.rollout import sampler
from grpo.study import diagnose
from scripts import cli

# Configs that must pass: groups, single rollouts, critics, turns and anchors.
RIGHT = ('grpo', 'dr_grpo', 'rloo', 'dapo', 'gspo', 'opo', 'ppo', 'sao', 'gigpo', 'turn_ppo',
         'grpo_process', 'rfpp_baseline')
GROUPED = ('grpo', 'dr_grpo', 'rloo', 'dapo', 'gspo', 'opo', 'gigpo', 'grpo_process')
PROMPTS, GROUP, TURNS = 12, 6, 4
BRIEF = compiling.options({}, 0)


def config_of(name: str):
  """A config on four turns of two actions, with a table for a policy."""
  config = cli.load(f'configs/{name}.py:smoke')
  for key, value in dict(horizon=TURNS, actions=2, visibility=0.5).items():
    config.task[key] = value
  config.model = base.slot('tabular', scale=0.3)
  return config


@functools.cache
def world(boost: float):
  """(parts, params) that batches are sampled from; `boost` is the logit of right actions."""
  parts = build.parts(config_of('grpo'))
  table = 0.3 * jax.random.normal(keys.root(0), (parts.layout.length, *2 * [parts.policy.vocab]))
  actions = parts.config['task']['actions']
  for cue in range(actions):
    for kind in (1, 2):
      table = table.at[:, 1 + kind * actions + cue, 1 + cue].add(boost)
  return parts, {'table': table}


def batch(*, lineage=None, short: bool = False, boost: float = 3.0):
  """(layout, rollout, log-probs computed again). `short`: some episodes lose their first turns."""
  parts, params = world(boost)
  play = lambda params, key: sampler.sample(
      parts.policy, params, parts.task, parts.layout, parts.knobs, key, step=0, prompts=PROMPTS,
      samples=GROUP, temperature=1.0, lineage=lineage)
  rollout = jax.jit(play, compiler_options=BRIEF)(params, keys.root(1))
  if short:  # as if an earlier window held them: lengths of 1 to 4 trained tokens
    first_G = jnp.arange(GROUP) % TURNS
    keep = rollout.mask & (rollout.turn >= first_G[None, :, None, None])
    rollout = dataclasses.replace(rollout, mask=keep)
  again = jax.jit(lambda p, r: scoring.logps(parts.policy, p, r, parts.layout, 1.0),
                  compiler_options=BRIEF)
  return parts.layout, rollout, types.stream(again(params, rollout))


def values_of(rollout):
  """Numbers that stand for a critic, on every position."""
  return jax.random.normal(keys.root(2), types.stream(rollout.mask).shape)


def credit_of(method):
  """(rollout, values) -> advantages of a method, compiled."""
  def credit(rollout, values_PGT):
    return methods.credit(method, rollout, old_logp_PGT=types.stream(rollout.logp),
                          values_PGT=values_PGT,
                          last_PG=jnp.zeros(rollout.success.shape)).advantages_PGT
  return jax.jit(credit, compiler_options=BRIEF)


@functools.cache
def right(name: str):
  """Credit of a config as it is."""
  return credit_of(build.parts(config_of(name)).method)


def through_observations(rollout, values_PGT):
  """GAE that counts every token of the stream as a step: lambda decays over observations."""
  mask_PGT, valid_PGT = types.stream(rollout.mask), types.stream(rollout.valid)
  everywhere = dataclasses.replace(rollout, mask=rollout.valid)
  method = dataclasses.replace(
      build.parts(config_of('ppo')).method, advantages=advantages.critic,
      returns=functools.partial(returns.lambda_return, lam=0.95))
  found = methods.credit(method, everywhere, old_logp_PGT=jnp.zeros(valid_PGT.shape),
                         values_PGT=values_PGT, last_PG=jnp.zeros(rollout.success.shape))
  return masked.clean(found.advantages_PGT, mask_PGT)


def over_tokens(returns_PGK, valid_PGK, context):
  """Group z-score whose mean and std count a sample once for each of its tokens."""
  weight_PGK = jnp.where(valid_PGK, context.tokens_PGK, 0).astype(returns_PGK.dtype)
  total = lambda x: jnp.sum(weight_PGK * x, axis=1, keepdims=True)
  number = jnp.sum(weight_PGK, axis=1, keepdims=True)
  centred = returns_PGK - total(returns_PGK) / number
  std = jnp.sqrt(total(centred**2) / number)
  return jnp.where(std > 1e-6, centred / jnp.where(std > 1e-6, std, 1.0), 0.0)


def unguarded(returns_PGK, valid_PGK, context):
  """z-score that divides whatever spread is left, rounding errors included."""
  del valid_PGK, context
  mean = jnp.sum(returns_PGK, axis=1, keepdims=True) / returns_PGK.shape[1]
  return (returns_PGK - mean) / (jnp.std(returns_PGK, axis=1, keepdims=True) + 1e-8)


def case(made, credit, grouped=True) -> diagnose.Case:
  layout, rollout, logp = made
  return diagnose.Case(layout, rollout, logp, values_of(rollout), credit, grouped)


def permuted(made, fields):
  """Some fields in the order of a sampler that has samples in front, read as prompts in front."""
  layout, rollout, logp = made
  order = np.arange(PROMPTS * GROUP).reshape(GROUP, PROMPTS).T.reshape(-1)
  move = lambda x: x.reshape(-1, *x.shape[2:])[order].reshape(x.shape)
  changed = {f: move(getattr(rollout, f)) for f in fields}
  return layout, dataclasses.replace(rollout, **changed), (
      move(logp) if 'tokens' in fields else logp)


def swapped_grpo(**slots):
  return credit_of(dataclasses.replace(build.parts(config_of('grpo')).method, **slots))


def broken():
  """(case name, fault that must be named, Case) of every wrong one."""
  good, short = batch(), batch(short=True)
  layout, rollout, logp = good
  leaked = batch(lineage=np.zeros((TURNS, GROUP), np.int32))
  shifted = dataclasses.replace(rollout, mask=jnp.roll(rollout.mask, 1, axis=-1))
  tenth = dataclasses.replace(rollout, rewards=rollout.rewards * 0.0 + 0.1 * (
      rollout.turn == TURNS - 1))
  sampled = [f.name for f in dataclasses.fields(types.Rollout)]
  yield 'samples share their key', 'leaked key', case(leaked, right('grpo'))
  yield 'mask one token late', 'shifted mask', case((layout, shifted, logp), right('grpo'))
  yield 'prompts too hard', 'dead group', case(
      batch(boost=-3.0), right('grpo'))
  yield 'z-score without a guard', 'dead group', case(
      (layout, tenth, logp), swapped_grpo(advantages=unguarded))
  yield 'rows by sample', 'wrong row order', case(permuted(good, sampled), right('grpo'))
  yield 'rewards and log-probs by sample', 'wrong row order', case(
      permuted(good, ('rewards', 'logp', 'success')), right('grpo'))
  yield 'lambda over all tokens', 'GAE through observations', case(
      good, jax.jit(through_observations, compiler_options=BRIEF), grouped=False)
  yield 'std counts tokens', 'std over tokens', case(short, swapped_grpo(advantages=over_tokens))


def sound():
  """(case name, Case) of what must pass, each with rows of equal and of unequal length."""
  for kind, made in (('', batch()), (', unequal rows', batch(short=True))):
    for name in RIGHT if not kind else ('grpo', 'dapo', 'opo', 'ppo', 'rfpp_baseline'):
      yield f'{name}{kind}', case(made, right(name), grouped=name in GROUPED)
