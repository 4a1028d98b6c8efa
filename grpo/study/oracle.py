"""Exact values of the `horizon` task, and branched Monte-Carlo for every task.

Exact: the latent chain of `horizon` has N = 12 n states a turn (n actions; 24 n with two
goals). Backward induction
under a policy pi(a | s), with the outcome R paid on the last turn and no discount:

    V_T(s) = 1[no damage]        Q_t(s, a) = r_t(s, a) + sum_s' P_t(s' | s, a) V_{t+1}(s')
    V_t(s) = sum_a pi(a | s) Q_t(s, a)        A_t(s, a) = Q_t(s, a) - V_t(s)

r is 0, and V_T is as above, unless `order` m asks for blocks of decisive turns. Then V_T = 0, and
r = m / K on the last turn of a block which the action leaves even: V is the mean of what is still
to be earned, not the chance of success.

A policy is a function of the latent state. A network reads a history instead: without drift, and
where failures always show, the two agree; elsewhere pass its mean behaviour in the state.

Branched: copy a state, give each copy its own noise, continue it to its end.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from grpo import keys
from grpo import types
from grpo.tasks import horizon

__all__ = ['Exact', 'solve', 'visits', 'lookup', 'uniform', 'mixture', 'branch']


@types.pytree
class Exact:
  """Exact values. Turns at and after the horizon hold V_T, and no advantage."""
  V: jax.Array      # f32 [H + 1, N]; before turn t; H is max_turns
  Q: jax.Array      # f32 [H, N, n]
  A: jax.Array      # f32 [H, N, n]
  probs: jax.Array  # f32 [H, N, n]; pi(a | s)
  start: jax.Array  # f32 []; mean of V over first states: success rate, or reward of an order


def uniform(actions: int) -> Callable:
  """The policy that draws every action alike."""
  return lambda state: jnp.full(actions, 1 / actions)


def mixture(actions: int, right) -> Callable:
  """The policy that takes the right action with probability `right`, else another one uniformly."""
  def policy(state):
    hit = jnp.arange(actions) == horizon.right_action(state, actions)
    return jnp.where(hit, right, (1 - right) / (actions - 1))
  return policy


def solve(knobs, policy: Callable, *, actions: int, max_turns: int, goals: int = 1) -> Exact:
  """V, Q and A of a policy in every latent state of `horizon`, by backward induction.

  Args:
    knobs: knobs of the task; may be traced.
    policy: horizon.State of one state (its noise is None) -> f32 [n], action probabilities.
    actions: n.
    max_turns: static bound on the turns, H.
    goals: 1, or 2 where the goal changes with hazard `switch`.

  Returns:
    Exact. Row i of turn t is the state of `horizon.index` i; states that are OK and shown never
    occur.
  """
  def back(V_N, turn):
    probs_NA, outcome_NAX, reward_NA, ends = _turn(turn, knobs, policy, actions, goals)
    Q_NA = jnp.where(ends, V_N[:, None],
                     reward_NA + _next(V_N, outcome_NAX, knobs, actions, goals))
    V_now = jnp.sum(probs_NA * Q_NA, axis=1)
    return V_now, (V_now, Q_NA, Q_NA - V_now[:, None], probs_NA)

  final = horizon.states(0, actions, goals)
  whole = jnp.asarray(knobs['order'], jnp.int32) == 0
  last_N = ((final.damage == horizon.OK) & whole).astype(jnp.float32)
  turns = jnp.arange(max_turns)
  _, (V, Q, A, probs) = jax.lax.scan(back, last_N, turns, reverse=True)
  V = jnp.concatenate([V, last_N[None]])
  return Exact(V=V, Q=Q, A=A, probs=probs, start=jnp.sum(V[0] * _first(actions, goals)))


def visits(knobs, policy: Callable, *, actions: int, max_turns: int, goals: int = 1):
  """Probability of being in each latent state before each turn, f32 [H + 1, N]; each row sums to 1.

  The arguments are those of `solve`. After the horizon the state stays as it is.
  """
  def forward(d_N, turn):
    probs_NA, outcome_NAX, _, ends = _turn(turn, knobs, policy, actions, goals)
    # The chain as a linear map: the gradient of a mean of next values in those values.
    mean = lambda V_N: jnp.sum(d_N[:, None] * probs_NA * _next(V_N, outcome_NAX, knobs, actions,
                                                               goals))
    after = jnp.where(ends, d_N, jax.grad(mean)(jnp.zeros_like(d_N)))
    return after, after

  first = _first(actions, goals)
  _, later = jax.lax.scan(forward, first, jnp.arange(max_turns))
  return jnp.concatenate([first[None], later])


def lookup(values, state_id):
  """Entries of `values` [H or H + 1, N, ...] at the state ids of a Rollout; 0 where the id is 0."""
  flat = values.reshape(-1, *values.shape[2:])
  found = flat[jnp.clip(state_id.astype(jnp.int32) - 1, 0, flat.shape[0] - 1)]
  on = jnp.expand_dims(state_id > 0, range(jnp.ndim(state_id), found.ndim))
  return jnp.where(on, found, 0.0)


def _first(actions, goals):
  """Law of the state before turn 0."""
  state = horizon.states(0, actions, goals)
  fresh = (state.goal == 0) & (state.mode == 0) & (state.damage == horizon.OK) & (state.shown == 0)
  return fresh / actions


def _turn(turn, knobs, policy, actions, goals):
  """(policy [N, n], law of damage and shown after it [N, n, 6], reward [N, n], whether it is over).

  Written from the rules of the task, not from its code, so that tests compare the two.
  """
  state = horizon.states(turn, actions, goals)
  probs_NA = jax.vmap(policy)(state)
  visibility, undo = (jnp.asarray(knobs[k], jnp.float32) for k in ('visibility', 'undo'))
  wrong_NA = jnp.arange(actions)[None] != horizon.right_action(state, actions)[:, None]
  fail = horizon.is_decisive(state.turn, knobs)[:, None] & wrong_NA
  damage, shown = state.damage[:, None], state.shown[:, None] > 0
  see = jnp.where(shown, 1.0, jnp.where(fail, visibility, 0.0))
  repair = jnp.where((damage == horizon.HURT) & ~wrong_NA, undo, 0.0)
  fine = jnp.where(fail, 0.0, jnp.where(damage == horizon.OK, 1.0, repair))
  hurt = (fail & (damage == horizon.OK)).astype(jnp.float32)
  decisive, order = (jnp.asarray(knobs[k], jnp.int32) for k in ('decisive', 'order'))
  last = horizon.closes(turn, knobs)
  even = (damage == horizon.HURT) == fail
  parity = even | last
  fine = jnp.where(order > 0, parity, fine).astype(jnp.float32)
  hurt = jnp.where(order > 0, ~parity, hurt).astype(jnp.float32)
  reward_NA = jnp.where(last & even, order / jnp.maximum(decisive, 1), 0.0)
  lost = 1 - fine - hurt
  zero = jnp.zeros_like(fine)
  outcome_NAX = jnp.stack([fine, zero, hurt * (1 - see), hurt * see, lost * (1 - see), lost * see],
                          axis=-1)
  return probs_NA, outcome_NAX, reward_NA, turn >= jnp.asarray(knobs['horizon'], jnp.int32)


def _next(V_N, outcome_NAX, knobs, actions, goals):
  """Mean of V over the next state [N, n]: cue uniform, mode and goal flipped with d and g."""
  drift = jnp.asarray(knobs['drift'], jnp.float32)
  V_OMX = V_N.reshape(goals, actions, 2, 6).mean(axis=1)
  V_OMX = (1 - drift) * V_OMX + drift * V_OMX[:, ::-1]
  if goals > 1:
    switch = jnp.asarray(knobs['switch'], jnp.float32)
    V_OMX = (1 - switch) * V_OMX + switch * V_OMX[::-1]
  state = horizon.states(0, actions, goals)
  return jnp.sum(outcome_NAX * V_OMX[state.goal, state.mode][:, None], axis=-1)


def branch(task, knobs, state, act: Callable, key, n: int, *, action=None):
  """Mean outcome of `n` continuations of a state, with its standard error.

  Args:
    task: any tasks.base.Task.
    knobs: its knobs.
    state: state of one episode that is not over, as `reset` or `step` returned it.
    act: (state, key) -> (tokens [A], valid [A]), the policy; `task.expert` is one.
    key: each continuation has its own noise and its own actions, from streams of this key.
    n: continuations, at least 2.
    action: (tokens [A], valid [A]) of the first turn, for Q of that action; None lets `act` choose.

  Returns:
    (mean, standard error): f32 [] each, of the sum of the rewards from here to the end.
  """
  if n < 2:
    raise ValueError(f'branch: a standard error needs n >= 2 continuations, got {n}')

  def play(i):
    def turn(carry, index):
      state, alive, total = carry
      chosen = act(state, keys.stream(key, 'act', i, index))
      if action is not None:
        chosen = jax.tree.map(lambda x, y: jnp.where(index == 0, x, y), action, chosen)
      out = task.step(state, *chosen, knobs)
      state = jax.tree.map(lambda x, y: jnp.where(alive, x, y), out.state, state)
      total = total + jnp.where(alive, out.reward, 0.0)
      return (state, alive & ~out.terminated & ~out.truncated, total), None

    start = task.reseed(state, keys.stream(key, 'noise', i)), jnp.asarray(True), jnp.float32(0)
    (_, _, total), _ = jax.lax.scan(turn, start, jnp.arange(task.max_turns))
    return total

  totals = jax.vmap(play)(jnp.arange(n))
  return totals.mean(), totals.std(ddof=1) / jnp.sqrt(jnp.float32(n))
