"""A method is one choice for each slot; the composition is this file and nothing else.

`credit` turns a scored rollout into advantages (data: outside the gradient). `policy_loss` and
`value_loss` are what is differentiated. Micro-batching and sharding are exact because every divisor
is counted once, over the whole optimiser batch, into `weights_PGT`: a loss is sum(weights * x).

Slots, and the file each comes from:

  shape       rewards.py      (rewards_PGT, logp_PGT, ref_logp_PGT, mask_PGT) -> same; a tuple
  filter      filters.py      (facts) -> keep_PG; a tuple
  chunk       chunks.py       (mask_PGT, turn_PGT, segment_PGT) -> chunk_PGT, K
  returns     returns.py      (rewards_PGK, valid_PGK, context) -> returns_PGK
              gae.py          the same, with turns, windows or a potential
  advantages  advantages.py   (returns_PGK, valid_PGK, context) -> advantages_PGK
              anchors.py      the same, among steps that start alike
              agents.py       the same, with turn rewards, entropies or two baselines
              trees.py        the same, among rollouts that share prefixes
  ratio       ratios.py       (logp_PGT, old_logp_PGT, mask_PGT, turn_PGT) -> log_ratio_PGT
  surrogate   surrogates.py   (log_ratio_PGT, logp_PGT, advantages_PGT, mask_PGT) -> loss_PGT
  kl          kl.py           (logp_PGT, ref_logp_PGT, log_ratio_PGT) -> kl_PGT
  aggregate   aggregate.py    (mask_PGT) -> weights_PGT
  correction  corrections.py  (old_logp_PGT, sampler_logp_PGT, mask_PGT) -> weight_PGT, keep_PGT
  gate        gates.py        (tokens) -> weight_PGT
  weigh       weigh.py        (facts, tokens_PGT, mask_PGT) -> weight_PGT
  memory      memory.py       () -> Memory; what is kept from step to step
  auxiliary   auxiliary.py    (success_PG, mask_PGT) -> weights_PGT; a tuple
  critic      critic.py       None or a CriticSpec

Advantages come from advantages.py and baselines.py, surrogates from surrogates.py, trust.py and
quadratic.py. The last four slots are labelled, all that are named apply, and their weights are
multiplied. What a method remembers is `TrainState.memory`: read by `memory.recall` before `credit`,
which gets the method and the baseline that came of it, and renewed by `memory.remember` afterwards;
nothing here has a state.

Keyword arguments of slot functions may be traced scalars, unless they are shapes or names.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from grpo import masked
from grpo import types
from grpo.objective import aggregate as aggregates
from grpo.objective import chunks
from grpo.objective import context as contexts
from grpo.objective import corrections
from grpo.objective import critic as critics
from grpo.objective import drift
from grpo.objective import filters
from grpo.objective import gates
from grpo.objective import needs
from grpo.objective import returns as returns_lib
from grpo.objective import weigh as weighing

__all__ = ['Method', 'Credit', 'Weights', 'credit', 'policy_weights', 'value_weights',
           'policy_loss', 'value_loss']

OLD = ('sampler', 'recomputed', 'reference')


@dataclasses.dataclass(frozen=True)
class Method:
  """A choice for each slot; see the module docstring.

  Attributes:
    shape: reward shaping, applied in order.
    filter: rows that are trained on; all must keep a row.
    chunk: the units of credit.
    returns: return of each chunk.
    advantages: advantage of each chunk.
    old: policy that the ratio is taken against: 'sampler', the one that sampled, with the
      log-probs it recorded, 'recomputed', the parameters at the start of the update, or
      'reference'.
    ratio: level of the importance ratio.
    surrogate: policy loss of a token.
    kl: penalty to the reference in the loss; `kl.none` needs no reference.
    kl_coef: its weight; outside the clipping, not multiplied by the advantage.
    entropy_coef: weight of the entropy bonus.
    aggregate: weight of each token, that is the divisor.
    auxiliary: further losses linear in logp.
    critic: how a critic is trained, or None.
    correction: weights and masks for data of another policy than `old`.
    gate: weights that are evaluated again at every update.
    weigh: weights of everything a token has in the loss.
    memory: pairs of label and Memory.
  """
  shape: tuple[Callable, ...]
  filter: tuple[Callable, ...]
  chunk: Callable
  returns: Callable
  advantages: Callable
  old: str
  ratio: Callable
  surrogate: Callable
  kl: Callable
  kl_coef: float
  entropy_coef: float
  aggregate: Callable
  auxiliary: tuple[Callable, ...]
  critic: critics.CriticSpec | None
  correction: tuple[Callable, ...] = ()
  gate: tuple[Callable, ...] = ()
  weigh: tuple[Callable, ...] = ()
  memory: tuple[tuple[str, Any], ...] = ()

  def __post_init__(self):
    if self.old not in OLD:
      raise ValueError(f'method.old: allowed are {", ".join(OLD)}; got {self.old!r}')


@types.pytree
class Credit:
  """What a rollout is worth, token by token. Every leaf has prompts in front: slices are legal."""
  advantages_PGT: jax.Array
  mask_PGT: jax.Array                # bool; trained tokens of the rows that were kept
  turn_PGT: jax.Array                # int32
  success_PG: jax.Array
  targets_PGT: jax.Array | None      # what the critic is to predict
  values_PGT: jax.Array | None       # what it predicted
  value_mask_PGT: jax.Array | None   # bool; first token of each chunk, of all rows
  correction_PGT: jax.Array | None = None    # weight of the surrogate; None without corrections
  weigh_PGT: jax.Array | None = None         # weight of all that a token has in the loss
  sampler_logp_PGT: jax.Array | None = None  # for gates, as is the next
  uniform_PGT: jax.Array | None = None


@types.pytree
class Weights:
  """Weights of the tokens of one optimiser batch; sum(weights * x) is a loss."""
  policy_PGT: jax.Array
  auxiliary_PGT: jax.Array


def credit(method: Method, rollout: types.Rollout, *, old_logp_PGT: jax.Array,
           ref_logp_PGT: jax.Array | None = None, values_PGT: jax.Array | None = None,
           last_PG: jax.Array | None = None, baseline: jax.Array | None = None,
           now: jax.Array | int = 0, key: jax.Array | None = None,
           entropy_PGT: jax.Array | None = None, potential_PGT: jax.Array | None = None,
           nodes_KG: jax.Array | None = None, guide_PN: jax.Array | None = None,
           answer_PGT: jax.Array | None = None, pace: jax.Array | None = None) -> Credit:
  """Advantages of every trained token, and the critic's targets. No gradient runs through it.

  Args:
    method: the slots.
    rollout: sampled episodes of the whole batch; windows [P,G,S,L], streams T = S * L.
    old_logp_PGT: log-probs under the policy that is held fixed, see `Method.old`.
    ref_logp_PGT: log-probs under the reference, or None.
    values_PGT: critic's value before each token, or None without a critic.
    last_PG: critic's value after the last token of each row, or None.
    baseline: of `advantages.minus_baseline`, [P,G].
    now: parameter version that is being trained, to tell stale rows.
    key: of the numbers that random gates draw; only those need one.
    entropy_PGT: entropies in nats, see `needs.entropy`.
    potential_PGT: potential of the state before the token's turn, see `needs.potential`.
    nodes_KG: samples that share prefixes, [turns, G]: the same number, the same turn.
    guide_PN: rewards of N episodes of the reference on each prompt, or None.
    answer_PGT: probability of the right answer before the token's turn, see `needs.answer`.
    pace: time that passes in a step, in the unit of durations, where rollouts take time.
  """
  if method.critic is not None and values_PGT is None:
    raise ValueError('credit: the method has a critic, and no values were given')
  mask_PGT = types.stream(rollout.mask)
  turn_PGT = types.stream(rollout.turn)
  segment_PGT = types.stream(jax.lax.broadcasted_iota(jnp.int32, rollout.mask.shape, 2))
  # A reward off the mask has no token to go to. This is the one place that drops it.
  earned_PGT = masked.clean(types.stream(rollout.rewards), mask_PGT)
  rewards_PGT = earned_PGT
  totals = [jnp.sum(earned_PGT, axis=2)]
  for shape in method.shape:
    rewards_PGT = masked.clean(shape(rewards_PGT, old_logp_PGT, ref_logp_PGT, mask_PGT), mask_PGT)
    totals.append(jnp.sum(rewards_PGT, axis=2))

  chunk_PGT, count = method.chunk(mask_PGT, turn_PGT, segment_PGT)
  context = contexts.gather(
      chunk_PGT, count, rollout, rewards_PGT=rewards_PGT, turn_PGT=turn_PGT,
      segment_PGT=segment_PGT, values_PGT=values_PGT, bootstrap_PG=last_PG, baseline_PG=baseline,
      parts_PGN=jnp.stack([totals[0], *(b - a for a, b in zip(totals, totals[1:]))], axis=2),
      entropy_PGT=entropy_PGT, potential_PGT=potential_PGT, nodes_KG=nodes_KG, guide_PN=guide_PN,
      answer_PGT=answer_PGT)
  rewards_PGK, valid_PGK = context.rewards_PGK, context.tokens_PGK > 0
  returns_PGK = method.returns(rewards_PGK, valid_PGK, context)
  advantages_PGK = method.advantages(returns_PGK, valid_PGK, context)

  facts = dataclasses.replace(filters.seen(rollout, now), shaped_PG=totals[-1],
                              baseline_PG=baseline, pace=pace)
  keep_PG = filters.combine(method.filter, facts)

  targets_PGT = value_mask_PGT = None
  if method.critic is not None:
    targets_PGK = returns_lib.lambda_return(
        rewards_PGK, valid_PGK, context, lam=method.critic.lam, discount=method.critic.discount,
        bootstrap=method.critic.bootstrap)
    targets_PGT = chunks.spread(targets_PGK, chunk_PGT)
    value_mask_PGT = chunks.first_mask(chunk_PGT)
    if method.critic.rows == 'finished':
      value_mask_PGT = value_mask_PGT & ~rollout.truncated[..., None]
    values_PGT = masked.clean(values_PGT, mask_PGT)
  sampler_PGT = types.stream(rollout.logp)
  correction_PGT, kept_PGT = corrections.combine(method.correction, old_logp_PGT, sampler_PGT,
                                                 mask_PGT & keep_PG[..., None])
  tokens_PGT = types.stream(jnp.where(rollout.valid, rollout.tokens, -1))
  weigh_PGT = weighing.combine(method.weigh, facts, tokens_PGT, mask_PGT)
  uniform_PGT = None
  if gates.needs_draws(method.gate):
    uniform_PGT = jax.random.uniform(key, mask_PGT.shape, float)
  mask_PGT = kept_PGT
  return jax.lax.stop_gradient(Credit(
      advantages_PGT=masked.clean(chunks.spread(advantages_PGK, chunk_PGT), mask_PGT),
      mask_PGT=mask_PGT, turn_PGT=turn_PGT, success_PG=rollout.success, targets_PGT=targets_PGT,
      values_PGT=None if method.critic is None else values_PGT, value_mask_PGT=value_mask_PGT,
      correction_PGT=correction_PGT, weigh_PGT=weigh_PGT,
      sampler_logp_PGT=sampler_PGT if method.gate else None, uniform_PGT=uniform_PGT))


def policy_weights(method: Method, credit_: Credit) -> Weights:
  """Divisors of the policy's losses over one whole optimiser batch."""
  mask_PGT = credit_.mask_PGT
  auxiliary_PGT = jnp.zeros(mask_PGT.shape, float)
  for auxiliary in method.auxiliary:
    auxiliary_PGT = auxiliary_PGT + auxiliary(credit_.success_PG, mask_PGT)
  policy_PGT = method.aggregate(mask_PGT)
  if credit_.weigh_PGT is not None:
    policy_PGT = policy_PGT * credit_.weigh_PGT
  return Weights(policy_PGT=policy_PGT, auxiliary_PGT=auxiliary_PGT)


def value_weights(method: Method, credit_: Credit) -> jax.Array:
  """Divisor of the critic's loss over one whole optimiser batch: the number of targets."""
  del method
  return aggregates.token(credit_.value_mask_PGT)


def policy_loss(method: Method, logp_PGT: jax.Array, entropy_PGT: jax.Array | None,
                old_logp_PGT: jax.Array, ref_logp_PGT: jax.Array | None, credit_: Credit,
                weights: Weights) -> tuple[jax.Array, dict]:
  """Loss of the policy on some prompts of an optimiser batch: add it up over the parts.

  sum weights (correction gate surrogate + kl_coef kl - entropy_coef entropy)
  - sum auxiliary logp.

  Args:
    method: the slots.
    logp_PGT: log-probs under the policy that is trained.
    entropy_PGT: entropy in nats of its next-token distributions, or None (no bonus, no metric).
    old_logp_PGT: log-probs under the policy that is held fixed.
    ref_logp_PGT: log-probs under the reference, or None.
    credit_: of these prompts.
    weights: of these prompts, cut out of those of the whole optimiser batch.

  Returns:
    (scalar, metrics).
  """
  mask_PGT = credit_.mask_PGT
  logp_PGT = masked.clean(logp_PGT, mask_PGT)
  old_logp_PGT = masked.clean(old_logp_PGT, mask_PGT)
  log_ratio_PGT = method.ratio(logp_PGT, old_logp_PGT, mask_PGT, credit_.turn_PGT)
  loss_PGT = method.surrogate(log_ratio_PGT, logp_PGT, credit_.advantages_PGT, mask_PGT)
  loss_PGT, metrics = gates.weighed(method, loss_PGT, log_ratio_PGT, logp_PGT, old_logp_PGT,
                                    entropy_PGT, credit_)
  metrics['loss/surrogate'] = _part(weights.policy_PGT, loss_PGT)
  if ref_logp_PGT is not None:
    ref_logp_PGT = masked.clean(ref_logp_PGT, mask_PGT)
    kl_PGT = method.kl(logp_PGT, ref_logp_PGT, log_ratio_PGT)
    loss_PGT = loss_PGT + method.kl_coef * kl_PGT
    metrics['kl/reference'] = types.Mean.of(logp_PGT - ref_logp_PGT, mask_PGT)
  if entropy_PGT is not None:
    entropy_PGT = masked.clean(entropy_PGT, mask_PGT)
    if needs.bonus(method):
      loss_PGT = loss_PGT - method.entropy_coef * entropy_PGT
    metrics['entropy'] = types.Mean.of(entropy_PGT, mask_PGT)
  loss = aggregates.apply(weights.policy_PGT, loss_PGT)
  loss = loss - aggregates.apply(weights.auxiliary_PGT, logp_PGT)
  metrics |= drift.ratio(method.surrogate, logp_PGT, old_logp_PGT, log_ratio_PGT, credit_)
  return loss, jax.lax.stop_gradient(metrics)


def value_loss(method: Method, values_PGT: jax.Array, credit_: Credit,
               weights_PGT: jax.Array) -> tuple[jax.Array, dict]:
  """Loss of the critic on some prompts of an optimiser batch: add it up over the parts."""
  mask_PGT = credit_.value_mask_PGT
  loss_PGT = critics.value_loss(values_PGT, credit_.values_PGT, credit_.targets_PGT, mask_PGT,
                                clip=method.critic.clip)
  error_PGT = masked.clean(values_PGT, mask_PGT) - credit_.targets_PGT
  metrics = {'value/error_square': types.Mean.of(jnp.square(error_PGT), mask_PGT)}
  return aggregates.apply(weights_PGT, loss_PGT), jax.lax.stop_gradient(metrics)


def _part(weights_PGT, x_PGT):
  """A loss as a metric: the count is the share of all weight that this part has."""
  return types.Mean(aggregates.apply(weights_PGT, x_PGT), jnp.sum(weights_PGT))
