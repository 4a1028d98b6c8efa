"""How wrong is each estimator of credit? Measured on rollouts of a policy in the `horizon` task.

Many batches are sampled from one policy; each estimator of `catalogue.py` credits all of them, by
the functions that training uses, and its gradient in the policy's parameters is taken. The truth
is the exact advantage (`oracle.solve`, `behaviour.py`) and the gradient that it gives. `judge.py`
says what is measured and how.

Errors of a noisy critic are normal, independent between tokens, with spread `noise`.

With a plan of `rollout/branch.py` the episodes share prefixes. The truth, the measures and the
gradient are then those of the rows that are trained on; continuations only give values.
"""

from collections.abc import Callable, Mapping
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo import types
from grpo.learn import compiling
from grpo.models import scoring
from grpo.objective import method as methods
from grpo.rollout import branch
from grpo.rollout import sampler
from grpo.study import behaviour
from grpo.study import catalogue
from grpo.study import judge
from grpo.study import oracle
from grpo.tasks import horizon
from grpo.tasks import interventions

__all__ = ['Auditor', 'check', 'known', 'TRUTH', 'OWN']

TRUTH, OWN = 'exact advantage', 'own'


def known(config: Mapping[str, Any]) -> None:
  """Raises ValueError if the task of a config, nested dicts, has no values that are known."""
  spec = config['task']
  if spec['name'] != 'horizon':
    raise ValueError(f'exact values are known for task horizon, got {spec["name"]}')
  if spec.get('goals', 1) > 1:
    raise ValueError(f'exact values are known for one goal, got task.goals={spec["goals"]}')
  for knob in interventions.KNOBS:
    if spec.get(knob, -1) >= 0:
      raise ValueError(f'exact values know no interventions: task.{knob}={spec[knob]}')


def check(actor) -> None:
  """Raises ValueError if the exact values of a build.Actor or build.Parts are not known."""
  known(actor.config)
  if actor.layout.segments > 1:
    raise ValueError('episodes must fit in one window for an audit: raise window.turns')


class Auditor:
  """Programs of one policy and task, compiled once for all settings of knobs and parameters.

  Attributes:
    names: estimators, `TRUTH` first.
  """

  def __init__(self, actor, *, prompts: int, group: int, noise: float = 0.1, critic=None,
               only: tuple[str, ...] = (), own=None, plan: branch.Plan | None = None,
               rollouts: int = 0):
    """Builds; nothing is compiled yet.

    Args:
      actor: build.Actor or build.Parts; its task must be `horizon`.
      prompts: P of a batch.
      group: G; at least 2, as groups compare.
      noise: spread of the errors of a noisy critic, in units of reward.
      critic: base.Critic whose parameters will be given, for 'trained' estimators; or None.
      only: names of estimators; empty for all that apply.
      own: slots of a further estimator, see catalogue.own; its name is `OWN`, its values are those
        of the critic whose parameters will be given, or exact ones without a critic.
      plan: which episodes share which turns, of `group` kept rows; None for independent ones. If it
        has continuations, the values of `own` are their means.
      rollouts: episodes of all runs, which decide how much the compiler does; 0 for few.
    """
    check(actor)
    if group < 2:
      raise ValueError(f'a group compares samples: group must be at least 2, got {group}')
    self._actor, self._sizes, self._noise, self._critic = actor, (prompts, group), noise, critic
    self._own, self._plan = own, plan
    if plan is not None and plan.kept != group:
      raise ValueError(f'the plan keeps {plan.kept} rows, and group is {group}')
    self.actions = actor.config['task']['actions']
    trained = [f'trained {name}' for name in catalogue.CRITIC] if critic else []
    known = [*catalogue.ESTIMATORS, *trained]
    for name in only:
      if name not in known:
        raise ValueError(f'unknown estimator {name!r}; known: {", ".join(known)}')
    self.names = (TRUTH, *([OWN] if own else []), *(n for n in known if not only or n in only))
    options = lambda passes: compiling.options(
        actor.config['model'], passes * rollouts * actor.layout.stream)
    # Sampling and the estimates are a small part of the work and most of what is compiled. The
    # gradients are taken one after the other, a pass for each.
    self._sample = jax.jit(self._sampled, compiler_options=options(0))
    self._credit = jax.jit(self._credited, compiler_options=options(0))
    self._pull = jax.jit(self._gradients, compiler_options=options(len(self.names)))

  def run(self, params, knobs: Mapping[str, Any] | None = None, *, batches: int, seed: int = 0,
          critic_params=None, on_progress: Callable[[int, int], None] = lambda done, total: None):
    """Audits one policy at one setting of knobs.

    Args:
      params: of the policy.
      knobs: those that differ from the actor's, such as horizon and visibility.
      batches: rollout batches; at least 2. Intervals are over them.
      seed: of the sampling.
      critic_params: of the critic that the auditor was made with.
      on_progress: called with (done, total).

    Returns:
      judge.Evidence of all estimators.
    """
    if batches < 2:
      raise ValueError(f'intervals need at least 2 batches, got {batches}')
    knobs = self._actor.knobs | dict(knobs or {})
    turns = self._actor.layout.max_turns
    if not 1 <= knobs['horizon'] <= turns:
      raise ValueError(f'horizon={knobs["horizon"]} does not fit in {turns} turns')
    root = keys.root(seed)
    played = []
    for i in range(batches):
      played.append(self._sample(params, root, i, knobs))
      on_progress(i + 1, 2 * batches)
    ids = np.concatenate([np.asarray(types.stream(r.state_id)) for r, _ in played])
    right = np.concatenate([np.asarray(x) for _, x in played])
    mean = behaviour.mean(right, ids, actions=self.actions, max_turns=turns)
    found = []
    for i, (batch, _) in enumerate(played):
      estimate_EPGT, facts = self._credit(params, critic_params, batch, mean.right, root, i, knobs)
      gradient = self._pull(params, branch.kept(self._plan, batch), estimate_EPGT)
      found.append(jax.device_get(facts | dict(gradient=gradient)))
      on_progress(batches + i + 1, 2 * batches)
    stack = functools.partial(np.stack, axis=0)
    return judge.Evidence(names=self.names, spread=float(mean.spread), batches=batches,
                          **jax.tree.map(lambda *x: stack(x), *found))

  def _sampled(self, params, root, index, knobs):
    """A batch with all its rows, and the probability of the right action at each of its turns."""
    actor, plan, (P, G) = self._actor, self._plan, self._sizes
    heat = actor.config['sample']['temperature']
    rollout = sampler.sample(actor.policy, params, actor.task, actor.layout, knobs,
                             keys.stream(root, 'audit'), step=index, prompts=P,
                             samples=plan.rows if plan else G, temperature=heat,
                             lineage=plan.lineage_KG if plan else None)
    probs = behaviour.next_tokens(actor.policy, params, rollout, actor.layout, heat)
    return rollout, behaviour.right(probs, rollout, actor.layout, self.actions)

  def _credited(self, params, critic_params, batch, right_HN, root, index, knobs):
    """All estimates of one batch, and what judge.Evidence says of it but the gradients."""
    actor, plan, rollout = self._actor, self._plan, branch.kept(self._plan, batch)
    heat, layout = actor.config['sample']['temperature'], actor.layout
    exact = behaviour.solve(knobs, right_HN, actions=self.actions)
    state_PGT, mask_PGT = types.stream(rollout.state_id), types.stream(rollout.mask)
    place_PGT = jnp.maximum(state_PGT, 1).astype(jnp.int32) - 1
    index_PGT = place_PGT % (12 * self.actions)
    state = horizon.states(0, self.actions)
    token_PGT = horizon.ACTION + horizon.right_action(state, self.actions)[index_PGT]
    hit_PGT = types.stream(rollout.tokens) == token_PGT
    correct_N = horizon.right_action(state, self.actions)
    wrong_N = (correct_N + 1) % self.actions  # all wrong ones are alike
    rows = jnp.arange(12 * self.actions)
    gain = lambda picked_N: oracle.lookup(exact.A[:, rows, picked_N], state_PGT)
    good_PGT, bad_PGT = gain(correct_N), gain(wrong_N)
    truth_PGT = jnp.where(mask_PGT, jnp.where(hit_PGT, good_PGT, bad_PGT), 0.0)

    values = dict(exact=oracle.lookup(exact.V, state_PGT))
    noise = jax.random.normal(keys.stream(root, 'noise', index), mask_PGT.shape)
    values['noisy'] = values['exact'] + self._noise * noise
    if self._critic is not None:
      values['trained'] = types.stream(
          scoring.values(self._critic, critic_params, rollout, layout))
    logp, entropy = map(types.stream, scoring.score(actor.policy, params, rollout, layout, heat))
    start_PG = jnp.max(jnp.where(types.stream(rollout.turn) == 0, values['exact'], 0.0), axis=2)
    known = dict(old_logp_PGT=logp, baseline=start_PG, entropy_PGT=entropy, last_PG=0.0 * start_PG,
                 potential_PGT=actor.task.potential(state_PGT, knobs),
                 nodes_KG=plan.nodes_KG if plan else None)
    mine_PGT = values['exact' if self._critic is None else 'trained']
    if plan is not None and plan.continuations:
      mine_PGT = branch.values(plan, batch)
    estimate_EPGT = jnp.stack([truth_PGT, *self._estimates(rollout, values, mine_PGT, known)])
    turns = [p for p in layout.action_slots if p < mask_PGT.shape[2]]
    pick = lambda x: x[..., jnp.asarray(turns)]
    return estimate_EPGT, dict(
        estimate=pick(estimate_EPGT), truth=pick(truth_PGT), on=pick(mask_PGT),
        right=pick(hit_PGT), state=pick(index_PGT) % 6,
        matters=pick(mask_PGT & (jnp.maximum(jnp.abs(good_PGT), jnp.abs(bad_PGT)) > 1e-6)),
        success=rollout.success, value=pick(values['exact']),
        **({'predicted': pick(values['trained'])} if self._critic is not None else {}))

  def _gradients(self, params, rollout, estimate_EPGT):
    """sum_t A_t grad logp_t over the rows of a batch, of each estimate: f32 [E,parameters]."""
    actor, (P, G) = self._actor, self._sizes
    logp, pull = jax.vjp(lambda p: types.stream(scoring.logps(
        actor.policy, p, rollout, actor.layout, actor.config['sample']['temperature'])), params)
    del logp
    # One after the other: jitted on a CPU (jax 0.10.2), a vmapped `pull` of a transformer adds the
    # same wrong vector to all but the first. tests/audit_test.py holds what linearity demands.
    grads = jax.lax.map(lambda a: pull(a / (P * G))[0], estimate_EPGT)
    return jnp.concatenate([x.reshape(len(self.names), -1) for x in jax.tree.leaves(grads)], axis=1)

  def _estimates(self, rollout, values, mine_PGT, known):
    """Advantages of all estimators but the first, in the order of their names."""
    found = {}
    if self._own:
      method = catalogue.method(self._own, self._actor.layout)
      found[OWN] = methods.credit(method, rollout, values_PGT=mine_PGT, **known).advantages_PGT
    for name in catalogue.GROUP:
      if name in self.names:
        method = catalogue.method(name, self._actor.layout)
        found[name] = methods.credit(method, rollout, **known).advantages_PGT
    values_CPGT = jnp.stack(list(values.values()))
    for entry, wanted in catalogue.families(self.names).items():
      # One program for all kinds of values and all lambdas.
      def credit(values_PGT, settings, entry=entry):
        method = catalogue.method(f'exact {entry}', self._actor.layout, **settings)
        return methods.credit(method, rollout, values_PGT=values_PGT, **known).advantages_PGT

      settings = {k: jnp.array([s[k] for s in wanted.values()]) for k in wanted[entry]}
      alone = lambda v, credit=credit: credit(v, {})[None]
      many = lambda v, s=settings, credit=credit: jax.vmap(lambda x: credit(v, x))(s)
      each_CNPGT = jax.vmap(many if settings else alone)(values_CPGT)
      for kind, each in zip(values, each_CNPGT, strict=True):
        found |= {f'{kind} {name}': x for name, x in zip(wanted, each, strict=True)}
    return [found[name] for name in self.names[1:]]
