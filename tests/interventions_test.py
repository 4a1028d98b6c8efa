"""Interventions: none changes nothing, each acts at its turn only, and the text shows it."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import base as configs
from grpo import build
from grpo import check
from grpo import keys
from grpo.tasks import base
from grpo.tasks import interventions
from grpo.tasks import scenes
from tests import episodes as runs

COUNT, TURNS, AT = 64, 6, 2
SIZES = dict(horizon=dict(goals=2), ladder=dict(max_level=5), keychain={}, sokoban={}, line={},
             meeting={}, triage={})
SHORT = ('horizon', 'line')
LONG = tuple(name for name in SIZES if name not in SHORT)
STRESS = dict(drift=0.2, visibility=0.3, undo=0.3, rules=2, switch=0.1)


@functools.cache
def tasks(name):
  plain = runs.build(name, **SIZES[name])
  return plain, interventions.wrap(plain)


@functools.cache
def _player(name, wrapped):
  task, legal = tasks(name)[wrapped], len(tasks(name)[0].vocab)

  def play(knobs, i):
    key = jax.random.fold_in(keys.root(0), i)
    state, prompt, valid = task.reset(key, knobs)
    state = task.reseed(state, jax.random.fold_in(key, 1))
    # The expert in one episode of two; uniform words in the other.
    draws = jax.random.uniform(jax.random.fold_in(key, 2), (TURNS, task.action_len))

    def turn(state, draw):
      action, real = task.expert(state, key)
      action = jnp.where(i % 2 > 0, action, 1 + (draw * (legal - 1)).astype(jnp.int32))
      out = task.step(state, action, real, knobs)
      return out.state, out

    return prompt, valid, jax.lax.scan(turn, state, draws)[1]

  return jax.jit(lambda knobs: jax.vmap(lambda i: play(knobs, i))(jnp.arange(COUNT)))


def play(name, wrapped, **knobs):
  task = tasks(name)[wrapped]
  knobs = task.knobs | {k: v for k, v in STRESS.items() if k in task.knobs} | knobs
  out = _player(name, wrapped)({k: jnp.float32(v) for k, v in knobs.items()})
  return jax.tree.map(np.asarray, out)


def words(name, step, i, turn):
  """Words of one observation of the wrapped task."""
  task = tasks(name)[1]
  return task.render(step.observation[i, turn], step.valid[i, turn]).split()


def last(name, **knobs):
  """Words that are seen after turn AT."""
  calm = {k: 0 for k in ('drift',) if k in tasks(name)[1].knobs}
  return words(name, play(name, 1, **calm | knobs)[2], 1, AT)


class InterventionsTest(parameterized.TestCase):

  @parameterized.parameters(*SHORT)
  def test_none_is_the_task_bit_for_bit(self, name):
    self.check_none(name)

  @parameterized.parameters(*LONG)
  @pytest.mark.slow
  def test_none_is_the_task_bit_for_bit_for_the_others(self, name):
    self.check_none(name)

  @parameterized.parameters(*((name, knob) for name in SHORT for knob in interventions.KNOBS))
  def test_it_acts_at_its_turn_and_not_before(self, name, knob):
    self.check_turn(name, knob)

  @parameterized.parameters(*((name, knob) for name in LONG for knob in interventions.KNOBS))
  @pytest.mark.slow
  def test_it_acts_at_its_turn_and_not_before_for_the_others(self, name, knob):
    self.check_turn(name, knob)

  def check_none(self, name):
    plain, wrapped = tasks(name)
    self.assertEqual(wrapped.vocab[:len(plain.vocab)], plain.vocab)
    prompt, valid, out = play(name, 0)
    prompt2, valid2, out2 = play(name, 1)
    O = plain.observation_len
    jax.tree.map(np.testing.assert_array_equal, (prompt, valid, out.state),
                 (prompt2, valid2, out2.state.inner))
    np.testing.assert_array_equal(out2.observation[..., -O:], out.observation)
    np.testing.assert_array_equal(out2.valid[..., -O:], out.valid)
    self.assertFalse(np.any(out2.valid[..., :-O]))
    for field in ('reward', 'success', 'terminated', 'truncated'):
      np.testing.assert_array_equal(getattr(out, field), getattr(out2, field), field)

  def check_turn(self, name, knob):
    if knob not in tasks(name)[1].knobs:
      self.assertIn((name in ('ladder', 'keychain', 'sokoban', 'horizon'), knob[:-3]),
                    {(True, k) for k in ('switch', 'drop', 'pin')})
      return
    _, _, calm = play(name, 1)
    _, _, out = play(name, 1, **{knob: AT})
    same = jax.tree.map(lambda a, b: (a == b).reshape(COUNT, TURNS, -1).all(axis=(0, 2)),
                        calm, out)
    before = jax.tree.map(lambda x: x[:AT].all(), same)
    self.assertTrue(all(jax.tree.leaves(before)))
    # What is said is said on that turn only, but for a pin, which stays.
    said = (out.valid.sum(-1) - calm.valid.sum(-1) != 0).any(axis=0)
    states_stay = all(x.all() for x in jax.tree.leaves(same.state))
    if knob in ('wrong_at', 'interrupt_at', 'correct_at', 'pin_at'):
      self.assertTrue(states_stay, 'the world is as it was')
    if knob in ('interrupt_at', 'correct_at'):
      self.assertEqual(np.flatnonzero(said).tolist(), [AT])
    if knob == 'wrong_at':
      np.testing.assert_array_equal(said, False)
      self.assertEqual(np.flatnonzero(~same.observation).tolist(), [AT])
    if knob == 'pin_at':
      self.assertEqual(np.flatnonzero(said).tolist(), list(range(AT, TURNS)))
    if knob == 'interrupt_at':
      cut = out.truncated & ~calm.truncated
      self.assertEqual(np.flatnonzero(cut.any(axis=0)).tolist(), [AT])
      np.testing.assert_array_equal(out.truncated[:, AT], ~calm.terminated[:, AT])
    if knob == 'switch_at':
      goal = dict(line='want', meeting='goal', triage='wish', horizon='goal')[name]
      old, new = (getattr(s.state.inner, goal) for s in (calm, out))
      flipped = old[:, AT] != new[:, AT]
      # The hazard may have flipped it on that turn anyway.
      self.assertGreater(flipped.mean(), 0.7)
      np.testing.assert_array_equal(old != new,
                                    flipped[:, None] & (np.arange(TURNS) >= AT)[None])

  @pytest.mark.slow
  def test_texts_of_a_board_and_of_a_wish(self):
    self.assertEqual(last('ladder', correct_at=AT)[0], 'correction')
    self.assertLen(last('ladder', correct_at=AT), 3 + 16)
    self.assertEqual(last('triage', switch_at=AT, switch=0)[-1][:5], 'wish-')

  def test_texts(self):
    calm = last('line')
    wrong = last('line', wrong_at=AT)
    self.assertEqual(calm[:3], wrong[:3])
    for a, b in zip(calm[3:], wrong[3:]):
      self.assertEqual((int(a[1:]) + 5) % 10, int(b[1:]))
    self.assertEqual(last('line', interrupt_at=AT), ['interrupted', *calm])
    self.assertEqual(last('line', drop_at=AT), ['rules-off', *calm])
    self.assertEqual(last('line', pin_at=0), ['pinned', 'inspect-first', 'no-hoard', *calm])
    said = last('line', correct_at=AT)
    self.assertEqual([said[0], *said[2:]], ['correction', *calm])
    following = play('line', 1, drift=0)[2].state.inner
    state = jax.tree.map(lambda x: jnp.asarray(x[1, AT]), following)
    task = tasks('line')[0]
    self.assertEqual(said[1], task.render(task.expert(state, None)[0]))
    self.assertEqual(last('horizon', switch_at=AT, switch=0)[0][:5], 'goal-')
    everything = last('line', wrong_at=AT, interrupt_at=AT, correct_at=AT, drop_at=AT, pin_at=AT)
    self.assertEqual(everything[:6], ['interrupted', 'rules-off', 'pinned', 'inspect-first',
                                      'no-hoard', 'correction'])
    self.assertEqual(everything[7:], wrong)
    wrapped = tasks('line')[1]
    self.assertLen(scenes.parse(wrapped, ' '.join(everything)), wrapped.observation_len)

  @parameterized.parameters((-1, 0.0), (0, 1.0), (1, 1.0), (2, 0.0))
  def test_a_dropped_rule_counts_no_more(self, drop, success):
    # Asks ann, waits, then books without having asked the others: breaks a rule on turn 2.
    task = tasks('meeting')[1]
    knobs = task.knobs | dict(rules=1, drop_at=drop)
    state = jax.jit(task.reset)(keys.root(0), knobs)[0]
    step, wait = jax.jit(task.step), jnp.ones(1, jnp.int32)
    for _ in range(2):
      out = step(state, wait, jnp.ones(1, bool), knobs)
      state = out.state
    inner = state.inner
    book = task.vocab.index('book-0z') + inner.common[inner.goal]
    out = step(state, book[None], jnp.ones(1, bool), knobs)
    self.assertEqual(float(out.success), success)

  def test_after_an_interruption_the_state_goes_on(self):
    task = tasks('horizon')[1]
    _, _, out = play('horizon', 1, interrupt_at=AT)
    self.assertTrue(np.all(out.truncated[:, AT]))
    self.assertFalse(np.any(out.truncated[:, AT + 1:]))
    # TURNS of its 8 turns have been played, two of them after the cut; the expert ends it well.
    state = jax.tree.map(lambda x: jnp.asarray(x[1, -1]), out.state)
    self.assertEqual(int(state.turn), TURNS)
    stress = {k: v for k, v in STRESS.items() if k in task.knobs}
    knobs = task.knobs | stress | dict(interrupt_at=AT)
    step = jax.jit(task.step)
    for _ in range(8 - TURNS):
      last = step(state, *task.expert(state, None), knobs)
      state = last.state
    self.assertTrue(bool(last.terminated))
    self.assertEqual(float(last.success), 1)

  def test_from_a_config(self):
    c = build.plain(configs.get_config('smoke,triage,interventions'))
    check.check(c)
    actor = build.actor(c, {'task.pin_at': 3})
    self.assertEqual(actor.knobs['pin_at'], 3)
    self.assertEqual(actor.layout.observation, 5 + 3 + 4)
    for spec, message in (('smoke,arithmetic,interventions', 'has one turn'),
                          ('smoke,triage,more', 'third word')):
      with self.assertRaisesRegex(ValueError, message):
        configs.get_config(spec)
    with self.assertRaisesRegex(ValueError, 'task.pin_at: must be a turn'):
      check.check(build.plain(c, {'task.pin_at': -2}))
    c = build.plain(configs.get_config('smoke,horizon,interventions'), {'task.switch_at': 1})
    with self.assertRaisesRegex(ValueError, 'needs task.goals=2'):
      check.check(c)
    with self.assertRaisesRegex(ValueError, 'several turns'):
      interventions.wrap(runs.build('arithmetic'))
    self.assertIsInstance(actor.task, base.Task)


if __name__ == '__main__':
  absltest.main()
