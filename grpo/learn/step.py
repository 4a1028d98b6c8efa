"""One training step of one seed: sample, score, credit, K critic updates, policy updates.

Pure: (parts, state) -> (state, metrics). `learn/loop.py` maps it over seeds, scans it between log
points and compiles the whole as one program.
"""

import dataclasses

import jax
import jax.numpy as jnp

from grpo import keys
from grpo import masked
from grpo import types
from grpo.learn import flops
from grpo.learn import passes
from grpo.learn import report
from grpo.learn import state as states
from grpo.learn import update
from grpo.models import scoring
from grpo.objective import memory as memories
from grpo.objective import method as methods
from grpo.objective import needs
from grpo.rollout import branch
from grpo.rollout import choose as choices
from grpo.rollout import refill
from grpo.rollout import sampler
from grpo.rollout import staleness
from grpo.tasks import schedules

__all__ = ['initial', 'train', 'sample']


def initial(parts, key, params=None) -> states.TrainState:
  """State before the first step.

  Args:
    parts: build.Parts.
    key: root key [] of the seed.
    params: policy parameters to start from; None draws fresh ones.
  """
  params = parts.policy.init(keys.stream(key, 'policy')) if params is None else params
  critic_params = critic_opt = None
  if parts.critic is not None:
    critic_params = parts.critic.init(keys.stream(key, 'critic'))
    if parts.method.critic.start == 'policy':
      critic_params = parts.critic.graft(critic_params, params)
    critic_opt = parts.critic_optimiser.init(critic_params)
  c = parts.config['sample']
  shapes = None
  if c['lag'] or parts.method.memory:
    shapes = jax.eval_shape(lambda p, k: _chosen(parts, sample(parts, p, k, 0), 0)[0], params, key)
  return states.TrainState(
      step=jnp.zeros([], jnp.int32), key=key, params=params,
      opt_state=parts.optimiser.init(params),
      critic_params=critic_params, critic_opt_state=critic_opt,
      reference=jax.tree.map(jnp.copy, params) if needs.reference(parts.method) else None,
      waiting=staleness.line(shapes, c['lag'], c['group'], c['delay']),
      counters=states.no_counts(), bad_step=jnp.full([], -1, jnp.int32),
      gradient=jax.tree.map(jnp.zeros_like, params) if parts.config['train']['compare'] else None,
      memory=memories.initial(parts.method.memory, shapes))


def sample(parts, params, key, step, axis_name=None, place=lambda tree: tree, *,
           greedy=0, reference=0) -> types.Rollout:
  """Rollouts of a step under `params`. `place` pins trees with leading axis P to devices.

  With a branch plan, all rows of it: those that are trained on (`branch.kept`), and the others.
  With over-sampling, all groups: those that are chosen (`refill.first`), and the others.
  `greedy` above 0 asks for as many greedy samples of each prompt instead, and `reference` for as
  many that have numbers of their own, to be played under other parameters.
  """
  c, plan = parts.config['sample'], parts.branch
  lineage = None if plan is None or greedy or reference else plan.lineage_KG
  samples = greedy or reference or (c['group'] if plan is None else plan.rows)
  return sampler.sample(
      parts.policy, params, parts.task, parts.layout,
      schedules.knobs(parts.schedule, parts.knobs, step), key, step=step,
      prompts=c['prompts'] * c['over'], samples=samples, temperature=c['temperature'], version=step,
      first_sample=c['group'] if reference else 0,
      axis_name=axis_name, choose=choices.greedy if greedy else None, place=place,
      lineage=lineage, forget=parts.config['window']['forget'],
      learn=parts.config['train']['summaries'])


def train(parts, state: states.TrainState, axis_name=None, place=lambda tree: tree):
  """One step.

  Args:
    parts: build.Parts; numbers in it may be traced.
    state: TrainState of one seed.
    axis_name: name of the mapped seed axis, where there is one.
    place: applied to trees with leading axis P; a sharding constraint on a mesh.

  Returns:
    (state, types.Metrics).
  """
  c = parts.config
  played = place(sample(parts, state.params, state.key, state.step, axis_name, place))
  fresh, of_step = _chosen(parts, played, state.step, place)
  waiting, rollout, ready = staleness.exchange(state.waiting, fresh, state.step,
                                               _durations(parts, state, fresh))
  rollout = place(rollout)
  ok = ready & (state.bad_step < 0)

  old, reference, values, last, entropy = passes.scores(parts, state, rollout)
  method, baseline = memories.recall(state.memory, parts.method, rollout)
  greedy = None
  if c['sample']['greedy']:  # of the same prompts and the same weights, never trained on
    greedy = place(sample(parts, state.params, state.key, state.step, axis_name, place,
                          greedy=c['sample']['greedy']))
    reward_P1 = masked.mean(jnp.sum(greedy.rewards, axis=(2, 3)), types.scored(greedy), axis=1,
                            keepdims=True)
    baseline = jnp.broadcast_to(reward_P1, rollout.success.shape)
  guided, guide = None, None
  if c['sample']['reference']:
    guided = place(sample(parts, state.reference, state.key, state.step, axis_name, place,
                          reference=c['sample']['reference']))
    guide = jnp.sum(guided.rewards, axis=(2, 3))
  potential, nodes, known = None, None, values
  if needs.potential(method):
    potential = parts.task.potential(types.stream(rollout.state_id), parts.knobs)
  answer = passes.answers(parts, state, rollout) if needs.answer(method) else None
  if parts.branch is not None:
    nodes = parts.branch.nodes_KG
    if parts.branch.continuations:
      known = branch.values(parts.branch, played)
  credit = methods.credit(method, rollout, old_logp_PGT=old, ref_logp_PGT=reference,
                          values_PGT=known, last_PG=last, baseline=baseline, now=state.step,
                          key=keys.stream(state.key, 'gate', state.step), entropy_PGT=entropy,
                          potential_PGT=potential, nodes_KG=nodes, guide_PN=guide,
                          answer_PGT=answer, pace=staleness.pace(waiting))
  data = _Data(rollout=rollout, old=old, reference=reference, credit=credit)

  temperature = c['sample']['temperature']
  micro, minibatches = c['train']['micro'], c['train']['minibatches']
  critic_params, critic_opt = state.critic_params, state.critic_opt_state
  critic_metrics = None
  warm = jnp.asarray(True)
  if parts.critic is not None:
    spec = method.critic
    warm = state.step >= spec.warmup

    def critic_update(carry, part):
      params, opt_state, finite = carry
      weights = methods.value_weights(method, part.credit)

      def loss(params, data):
        part, weights = data
        values_PGT = types.stream(
            scoring.values(parts.critic, params, part.rollout, parts.layout))
        return methods.value_loss(method, values_PGT, part.credit, weights)

      grads, value, metrics = update.gradient(loss, params, (part, weights), micro)
      grads = update.freeze(grads, spec.freeze)
      params, opt_state, size = update.apply(
          parts.critic_optimiser, params, opt_state, grads, ok & finite & jnp.isfinite(value))
      metrics, good = report.optimiser('value', metrics, value, grads, size)
      return (params, opt_state, finite & good), metrics

    carry = (critic_params, critic_opt, jnp.asarray(True))
    carry, critic_metrics, _ = update.sweep(critic_update, carry, data, minibatches=minibatches,
                                            passes=spec.updates)
    critic_params, critic_opt, critic_finite = carry
    ok = ok & critic_finite

  def policy_update(carry, part):
    params, opt_state, finite, total = carry
    weights = methods.policy_weights(method, part.credit)

    def loss(params, data):
      part, weights = data
      logp_PGT, entropy_PGT = map(types.stream, scoring.score(
          parts.policy, params, part.rollout, parts.layout, temperature,
          bonus=needs.bonus(method)))
      return methods.policy_loss(method, logp_PGT, entropy_PGT, part.old, part.reference,
                                 part.credit, weights)

    grads, value, metrics = update.gradient(loss, params, (part, weights), micro)
    params, opt_state, size = update.apply(
        parts.optimiser, params, opt_state, grads, ok & warm & finite & jnp.isfinite(value))
    metrics, good = report.optimiser('policy', metrics, value, grads, size)
    total = jax.tree.map(jnp.add, total, grads) if c['train']['compare'] else None
    return (params, opt_state, finite & good, total), metrics

  nothing = jax.tree.map(jnp.zeros_like, state.gradient)
  carry = (state.params, state.opt_state, jnp.asarray(True), nothing)
  carry, policy_metrics, first = update.sweep(
      policy_update, carry, data, minibatches=minibatches, passes=c['train']['epochs'])
  params, opt_state, finite, total = carry
  if parts.critic is not None:
    finite = finite & critic_finite

  new = dataclasses.replace(
      state, step=state.step + 1, params=params, opt_state=opt_state,
      critic_params=critic_params, critic_opt_state=critic_opt,
      reference=_reset(c['method']['reference_every'], state, params),
      gradient=total, waiting=waiting,
      counters=flops.count(parts, state.counters, [played, greedy, guided], credit),
      memory=passes.memory(parts, state, rollout, old, reference, ready),
      bad_step=jnp.where((state.bad_step < 0) & ~finite, state.step, state.bad_step))
  of_step |= report.credit(rollout, credit, values, state.step, c['sample']['lag'] > 0)
  if c['train']['compare']:
    of_step |= report.turned(state.gradient, total)
  out = types.Metrics.pack(of_step | report.gap(first)).join(policy_metrics)
  return new, out if critic_metrics is None else out.join(critic_metrics)


def _chosen(parts, played, now, place=lambda tree: tree):
  """Of all episodes of a step those that may be trained on, and metrics of them all."""
  c, fresh = parts.config['sample'], branch.kept(parts.branch, played)
  metrics = report.rollout(fresh)
  if c['over'] == 1:
    return fresh, metrics
  fresh, found = refill.first(parts.method.filter, fresh, c['prompts'], now)
  return place(fresh), metrics | found


def _durations(parts, state, rollout):
  """How long each rollout of this step takes to play, for a pool: f32 [P,G]."""
  if not isinstance(state.waiting, staleness.Pool):
    return None

  def normal(prompt, sample):
    return jax.random.normal(keys.stream(state.key, 'delay', state.step, prompt, sample))

  normal_PG = jax.vmap(jax.vmap(normal))(rollout.prompt_id, rollout.sample_id)
  return parts.delay(normal_PG, jnp.sum(rollout.mask, axis=(2, 3)))


@types.pytree
class _Data:
  """What the losses of a step read; leading axis P on every leaf."""
  rollout: types.Rollout
  old: jax.Array
  reference: jax.Array | None
  credit: methods.Credit





def _reset(every, state, params):
  """The reference after this step: the new parameters every `every` steps, else unchanged."""
  if state.reference is None or (isinstance(every, int) and every == 0):
    return state.reference
  now = (state.step + 1) % every == 0
  return jax.tree.map(lambda new, old: jnp.where(now, new, old), params, state.reference)
