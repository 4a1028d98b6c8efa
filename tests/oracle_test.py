"""Exact values against enumeration, identities and the simulator itself."""

import functools
import itertools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.study import oracle
from grpo.tasks import horizon
from tests import episodes as runs

NEUTRAL = dict(horizon=4, decisive=2, visibility=0.0, undo=0.0, drift=0.0, delay=0, unmarked=0.0,
               sources=1, unreliable=0.0, switch=0.0, manner=0.0, fatal=0.0, order=0)
# Liars among the sources change what is seen, not the latent chain: values stay exact.
HARD = NEUTRAL | dict(visibility=0.4, undo=0.7, drift=0.2, delay=1, unreliable=0.5)


def habit(state):
  """A policy that prefers low actions, and is better when it sees damage."""
  shown = jnp.where(state.shown > 0, 1.0, 0.3)
  logits = jnp.arange(2) * -0.4 + shown * (jnp.arange(2) == horizon.right_action(state, 2))
  return jax.nn.softmax(logits)


def enumerate_value(knobs, policy, turn, cue, mode, damage, shown, goal=0, first=None):
  """Mean of what is still to be earned by following every branch; plain Python, n = 2.

  With actions 0 and 1, mode and goal both swap them. `first` is the action of this turn, if any.
  """
  order = knobs['order']
  if turn == knobs['horizon']:
    return float(damage == 'ok' and not order)
  span = knobs['horizon'] - knobs['delay']
  deciding = [t for t in range(span) if t * knobs['decisive'] % span < knobs['decisive']]
  decisive = turn in deciding
  total = 0.0
  for action in range(2) if first is None else (first,):
    right = action == (cue + mode + goal) % 2
    failed = decisive and not right
    repair = knobs['undo'] if damage == 'hurt' and right else 0.0
    for repaired, p_repair in ((True, repair), (False, 1 - repair)):
      after = damage
      if damage == 'hurt':
        after = 'ok' if repaired else 'lost'
      if failed:
        after = 'hurt' if after == 'ok' else 'lost'
      earned = 0.0
      if order:
        after = 'hurt' if (damage == 'hurt') != failed else 'ok'
        if decisive and (deciding.index(turn) + 1) % order == 0:
          earned, after = (after == 'ok') * order / knobs['decisive'], 'ok'
      see = knobs['visibility'] if failed and not shown else float(shown)
      for sees, p_see in ((True, see), (False, 1 - see)):
        chosen = policy[turn, cue, mode, damage, shown, goal][action] if first is None else 1
        weight = chosen * p_repair * p_see
        for flips, turns in itertools.product((False, True), repeat=2):
          p = 1.0
          for happens, chance in ((flips, knobs['drift']), (turns, knobs['switch'])):
            p *= chance if happens else 1 - chance
          if weight * p:
            total += weight * p * 0.5 * sum(
                earned + enumerate_value(knobs, policy, turn + 1, c, mode ^ flips, after,
                                sees and after != 'ok', goal ^ turns) for c in range(2))
  return total


class ExactTest(parameterized.TestCase):

  @parameterized.parameters((NEUTRAL, 1), (HARD, 1), (HARD | dict(decisive=4, delay=0), 1),
                            (HARD | dict(visibility=1.0, undo=1.0, delay=0), 1),
                            (NEUTRAL | dict(switch=0.3), 2), (HARD | dict(switch=0.4), 2),
                            *((HARD | dict(undo=0.0, delay=delay, decisive=K, order=m), 1)
                              for K, m, delay in ((2, 1, 0), (2, 2, 1), (3, 3, 0), (3, 1, 0))),
                            (HARD | dict(undo=0.0, delay=0, order=2, switch=0.4), 2))
  def test_equals_enumeration(self, knobs, goals):
    knobs = knobs | dict(horizon=3)
    exact = oracle.solve(knobs, habit, actions=2, max_turns=5, goals=goals)
    policy = {}
    for turn in range(3):
      state = horizon.states(turn, 2, goals)
      names = [(turn, int(c), int(m), ('ok', 'hurt', 'lost')[d], bool(s), int(g)) for c, m, d, s, g
               in zip(state.cue, state.mode, state.damage, state.shown, state.goal)]
      policy |= dict(zip(names, np.asarray(exact.probs[turn])))
    value = functools.partial(enumerate_value, knobs, policy)
    for turn in range(3):
      for row, name in enumerate([n for n in policy if n[0] == turn]):
        if name[3:5] != ('ok', True) and not (knobs['order'] and name[3] == 'lost'):
          self.assertAlmostEqual(float(exact.V[turn, row]), value(*name), places=5, msg=str(name))
          for action in range(2):
            forced = value(*name, first=action)
            self.assertAlmostEqual(float(exact.Q[turn, row, action]), forced, places=5)
            self.assertAlmostEqual(float(exact.A[turn, row, action]), forced - value(*name),
                                   places=5)
    start = np.mean([value(0, cue, 0, 'ok', False) for cue in range(2)])
    self.assertAlmostEqual(float(exact.start), start, places=5)

  @parameterized.parameters((2, 1), (2, 3), (4, 2))
  def test_uniform_policy_succeeds_n_to_the_minus_k(self, actions, decisive):
    knobs = NEUTRAL | dict(horizon=8, decisive=decisive, drift=0.3)
    exact = oracle.solve(knobs, oracle.uniform(actions), actions=actions, max_turns=8)
    self.assertAlmostEqual(float(exact.start), actions**-decisive, places=6)

  @parameterized.parameters((1, 0.7), (2, (1 + 0.4**2) / 2), (4, (1 + 0.4**4) / 2))
  def test_a_policy_wins_blocks_with_the_odds_of_a_parity(self, order, won):
    # Right with 0.7: sum of an even number of failures of m is (1 + (2 * 0.7 - 1)^m) / 2.
    knobs = NEUTRAL | dict(horizon=8, decisive=4, order=order)
    exact = oracle.solve(knobs, oracle.mixture(4, 0.7), actions=4, max_turns=8)
    self.assertAlmostEqual(float(exact.start), won, places=6)
    # A right action is worth m / K times the odds that the rest of the block leaves: 0.4^(m - 1).
    fresh = horizon.index(horizon.State(None, 1, 0, horizon.OK, 0, None), 4)
    gain = exact.Q[0, fresh, 1] - exact.Q[0, fresh, 0]
    self.assertAlmostEqual(float(gain), order / 4 * 0.4**(order - 1), places=6)
    routine = jnp.abs(exact.A[1::2]).max()
    self.assertLess(float(routine), 1e-6)

  def test_bad_then_recover(self):
    # Two actions, uniform, one decisive turn, the next can repair: V = 1/2 * 1 + 1/2 * 1/2 = 0.75.
    # BAD leads to V = 0.5, an advantage of -0.25; RECOVER leads from 0.5 to 1, +0.50.
    knobs = NEUTRAL | dict(horizon=2, decisive=1, visibility=1.0, undo=1.0)
    exact = oracle.solve(knobs, oracle.uniform(2), actions=2, max_turns=2)
    self.assertAlmostEqual(float(exact.start), 0.75, places=6)
    for cue in range(2):
      state = lambda damage, shown: horizon.State(None, cue, 0, damage, shown, None)
      fresh = horizon.index(state(horizon.OK, 0), 2)
      hurt = horizon.index(state(horizon.HURT, 1), 2)
      self.assertAlmostEqual(float(exact.A[0, fresh, 1 - cue]), -0.25, places=6)
      self.assertAlmostEqual(float(exact.A[1, hurt, cue]), 0.5, places=6)
      self.assertAlmostEqual(float(jnp.abs(exact.A[1, fresh]).max()), 0, places=6)

  def test_irrelevant_turns_have_no_advantage_and_means_vanish(self):
    exact = oracle.solve(NEUTRAL | dict(horizon=8), oracle.mixture(4, 0.7), actions=4, max_turns=8)
    spread = jnp.abs(exact.A).max(axis=(1, 2))
    np.testing.assert_array_equal(spread > 1e-6, [True, False, False, False] * 2)
    np.testing.assert_allclose(jnp.sum(exact.A * exact.probs, axis=-1), 0, atol=1e-6)
    self.assertAlmostEqual(float(exact.start), 0.49, places=6)

  def test_rewards_of_blocks_add_up_over_visits(self):
    knobs = HARD | dict(horizon=6, delay=0, undo=0.0, decisive=4, order=2)
    sizes = dict(actions=2, max_turns=6)
    exact, visits = (f(knobs, habit, **sizes) for f in (oracle.solve, oracle.visits))
    still = (visits * exact.V).sum(axis=1)
    # Decisive turns are 0, 2, 3 and 5, so blocks end with turns 2 and 5.
    np.testing.assert_allclose(still[1:3], exact.start, atol=1e-6)
    np.testing.assert_allclose(still[4:6], still[3], atol=1e-6)
    self.assertGreater(float(exact.start - still[3]), 0.2)
    self.assertEqual(float(still[6]), 0.0)

  @parameterized.parameters((NEUTRAL, 1), (HARD, 1), (HARD | dict(switch=0.3), 2))
  def test_mean_value_over_visits_is_the_success_rate_on_every_turn(self, knobs, goals):
    sizes = dict(actions=2, max_turns=6, goals=goals)
    exact, visits = (f(knobs, habit, **sizes) for f in (oracle.solve, oracle.visits))
    np.testing.assert_allclose(visits.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose((visits * exact.V).sum(axis=1), exact.start, atol=1e-6)

  def test_lookup(self):
    values = jnp.arange(3 * 24.0).reshape(3, 24)
    ids = jnp.asarray([[0, 1], [25, 72]], jnp.uint32)
    np.testing.assert_array_equal(oracle.lookup(values, ids), [[0, 0], [24, 71]])
    self.assertEqual(oracle.lookup(values[..., None], ids).shape, (2, 2, 1))


class BranchTest(parameterized.TestCase):

  @parameterized.parameters(dict(), dict(undo=0.0, order=1), dict(undo=0.0, order=3, delay=0))
  def test_simulator_agrees_with_the_exact_values(self, **changes):
    task = runs.build('horizon', actions=2, max_turns=6, goals=2)
    knobs = HARD | dict(horizon=6, decisive=3, switch=0.25) | changes
    exact = oracle.solve(knobs, habit, actions=2, max_turns=6, goals=2)

    def act(state, key):
      second = jax.random.uniform(key) < habit(state)[1]
      return 1 + second.astype(jnp.int32)[None], jnp.ones(1, bool)

    @jax.jit
    def check(key, forced):
      """Continues a state that `forced` wrong or right actions led to, freely and with action 0."""
      state, *_ = task.reset(jax.random.fold_in(key, 0), knobs)
      for wrong in forced:
        token = 1 + (horizon.right_action(state, 2) + wrong) % 2
        state = task.step(state, token[None], jnp.ones(1, bool), knobs).state
      first = jnp.ones(1, jnp.int32), jnp.ones(1, bool)
      free = oracle.branch(task, knobs, state, act, jax.random.fold_in(key, 1), 4000)
      fixed = oracle.branch(task, knobs, state, act, jax.random.fold_in(key, 2), 4000, action=first)
      return task.state_id(state), free, fixed

    for seed, forced in enumerate(((0, 0), (1, 0), (1, 1), (0, 1), (1, 0), (0, 0))):
      state_id, free, fixed = check(keys.root(seed), jnp.asarray(forced))
      value = oracle.lookup(exact.V, state_id)
      forced_value = oracle.lookup(exact.Q, state_id)[0]
      for (mean, error), want in ((free, value), (fixed, forced_value)):
        self.assertLess(abs(float(mean - want)), 4 * float(error) + 1e-6, msg=f'{forced}')

  def test_any_task(self):
    task = runs.build('arithmetic')
    state, *_ = task.reset(keys.root(0), task.knobs)
    mean, error = oracle.branch(task, task.knobs, state, task.expert, keys.root(1), 8)
    self.assertEqual((float(mean), float(error)), (1, 0))
    with self.assertRaisesRegex(ValueError, 'n >= 2'):
      oracle.branch(task, task.knobs, state, task.expert, keys.root(1), 1)


if __name__ == '__main__':
  absltest.main()
