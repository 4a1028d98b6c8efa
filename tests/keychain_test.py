"""Rules, lengths, dead ends and floors of the keychain task."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.study import play
from grpo.tasks import keychain
from tests import episodes as runs

WORDS = {word: i for i, word in enumerate(('_', 'east', 'west', 'take'))}


class KeychainTest(parameterized.TestCase):

  def walk(self, doors, floor, words, limit=99, **knobs):
    """Texts of the observations and the last step of a given world."""
    task = runs.build('keychain', max_doors=2, max_distractors=1)
    zero = jnp.int32(0)
    state = keychain.State(zero, zero, zero, jnp.asarray(floor), jnp.asarray(doors), jnp.int32(3),
                           jnp.int32(limit), zero, jnp.zeros(2, jnp.uint32))
    step, texts = jax.jit(task.step), []
    for word in words.split():
      out = step(state, jnp.asarray([WORDS[word]]), jnp.ones(1, bool), task.knobs | knobs)
      state = out.state
      texts.append(task.render(out.observation, out.valid))
    return texts, out

  def test_a_world_in_words(self):
    # Doors red, blue; keys green (of no door), blue, red from the start to the west.
    texts, out = self.walk([1, 2], [3, 2, 1], 'east take west west take east east east')
    self.assertEqual(texts, [
        'locked green none red', 'took none green red', 'moved blue green open',
        'moved red green open', 'took green red open', 'moved blue red open',
        'moved none red red', 'opened none none blue'])
    self.assertFalse(bool(out.terminated))
    texts, out = self.walk([1, 2], [1, 2, 3], 'take east west west take east east east take')
    self.assertEqual(texts[-2:], ['opened none none none', 'nothing none none none'])
    texts, out = self.walk([1, 2], [1, 2, 3], 'take east west west take east east east')
    ends = lambda out: (float(out.success), bool(out.terminated), bool(out.truncated))
    self.assertEqual(ends(out), (1, True, False))
    _, out = self.walk([1, 2], [1, 2, 3], 'take east', limit=2)
    self.assertEqual(ends(out), (0, False, True))

  def test_a_wrong_key_may_break_and_then_there_is_no_way(self):
    texts, out = self.walk([1, 2], [2, 1, 3], 'take east', brittle=1.0)
    self.assertEqual(texts[-1], 'broke none none red')
    self.assertNotIn(2, [*out.state.floor.tolist(), int(out.state.hand)])
    self.assertEqual(self.walk([1, 2], [2, 1, 3], 'take east')[0][-1], 'locked none blue red')

  @parameterized.parameters(1, 2, 3)
  def test_the_expert_needs_two_d_squared_turns_and_is_in_time(self, doors):
    task = runs.build('keychain', max_doors=3, max_distractors=3)
    record = runs.episodes(task, 'expert', doors=doors, hurry=1.0)
    self.assertEqual(runs.success(record), 1)
    np.testing.assert_array_equal(record['alive'].sum(1), 2 * doors**2)
    longer = runs.episodes(task, 'expert', doors=doors, distractors=3, hurry=1.0, brittle=1.0)
    self.assertEqual(runs.success(longer), 1)
    self.assertAlmostEqual(longer['alive'].sum(1).mean(), 2 * doors**2 + 3 * doors, delta=0.3)

  def test_ten_doors_take_two_hundred_turns(self):
    task = keychain.make(max_doors=10)
    self.assertEqual(task.max_turns, 400)
    key, knobs = keys.root(0), task.knobs | dict(hurry=1.0)
    state, *_ = task.reset(key, knobs)
    self.assertEqual(int(state.limit), 200)

    def turn(state, _):
      out = task.step(state, *task.expert(state, None), knobs)
      return out.state, out.success
    success = jax.jit(lambda state: jax.lax.scan(turn, state, None, length=200)[1])(state)
    self.assertEqual((float(success[198]), float(success[199])), (0, 1))

  def test_a_knob_changes_its_own_thing_only(self):
    task = runs.build('keychain', max_doors=3, max_distractors=3)
    plain = runs.episodes(task, 'expert')
    for knobs in (dict(brittle=1.0), dict(hurry=1.0), dict(subgoal=1.0)):
      other = runs.episodes(task, 'expert', **knobs)
      np.testing.assert_array_equal(plain['observation'], other['observation'])
      np.testing.assert_array_equal(plain['prompt'], other['prompt'])
    other = runs.episodes(task, 'expert', distractors=2)
    np.testing.assert_array_equal(plain['prompt'][:, 3], other['prompt'][:, 3])

  def test_split_is_disjoint_and_uniform(self):
    self.assertNotIn('heldout', runs.build('keychain').knobs)
    task = runs.build('keychain', max_doors=2, max_distractors=1)
    one = lambda i, knobs: task.reset(jax.random.fold_in(keys.root(0), i), knobs)[0]
    reset = jax.jit(jax.vmap(one, in_axes=(0, None)))
    sides, count = [], 3600
    for heldout in (0, 1):
      state = reset(jnp.arange(count), task.knobs | dict(distractors=1, heldout=heldout))
      worlds = np.concatenate([state.doors, state.floor], axis=1)
      self.assertTrue(np.all(((worlds[:, 1] - worlds[:, 0]) % 3 == 1) == heldout))
      found, times = np.unique(worlds, axis=0, return_counts=True)
      sides.append({tuple(world) for world in found.tolist()})
      # Half of 36 worlds, each 200 times: five standard errors.
      self.assertLess(np.abs(times - count / 18).max(), 5 * (count / 18)**0.5)
    self.assertEqual([len(side) for side in sides], [18, 18])
    self.assertEmpty(sides[0] & sides[1])

  def test_potential_and_subgoals_add_up(self):
    task = runs.build('keychain')
    record = runs.episodes(task, 'expert', subgoal=0.5)
    np.testing.assert_allclose((record['reward'] * record['alive']).sum(1), 1, atol=1e-6)
    phi = np.asarray(task.potential(jnp.asarray(record['state_id']), task.knobs))
    last = phi[np.arange(len(phi)), record['alive'].sum(1) - 1]
    np.testing.assert_array_equal(last, 1)
    self.assertEqual(set(phi.reshape(-1).tolist()), {0.0, 0.25, 0.5, 0.75, 1.0})

  def test_floors_and_exploits(self):
    task = runs.build('keychain')
    for doors, hurry, floor in ((1, 0.0, 0.022), (1, 1.0, 0.004), (2, 0.0, 0.0)):
      found = runs.rates(task, doors=doors, hurry=hurry)
      self.assertAlmostEqual(found['success'], floor, delta=0.004)
      self.assertIn(f'{floor:.3f}', keychain.__doc__)
    self.assertAlmostEqual(runs.rates(task, subgoal=1.0)['reward'], 0.040, delta=0.006)
    for tokens in ([], [1], [2], [3]):
      for doors in (1, 2):
        found = runs.rates(task, tokens, doors=doors, subgoal=1.0)
        self.assertEqual((found['reward'], found['truncated']), (0, 1))

  def test_a_walk_without_a_look_solves_half_of_the_instances_of_two_doors(self):
    task = runs.build('keychain')
    walk = jnp.asarray([task.vocab.index(w) for w in 'take east west west take east'.split()])
    act = lambda state, key: (walk[jnp.minimum(state.turn, 5)][None], jnp.ones(1, bool))
    success, _, _ = play.scores(task, act, 4000)({}, keys.root(0))
    self.assertAlmostEqual(success.mean(), 0.5, delta=0.03)
    self.assertIn('0.50', keychain.__doc__)

  def test_bad_sizes(self):
    for sizes in (dict(max_doors=0), dict(max_doors=9, max_distractors=9)):
      with self.assertRaisesRegex(ValueError, 'keychain: '):
        keychain.make(**sizes)


if __name__ == '__main__':
  absltest.main()
