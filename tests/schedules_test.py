"""Knobs that follow the step, style that pays, and the cosine of successive gradients."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from configs import grpo
from grpo import build
from grpo import check
from grpo import keys
from grpo.learn import loop
from grpo.learn import report
from grpo.learn import sinks
from grpo.learn import step as steps
from grpo.tasks import horizon
from grpo.tasks import schedules
from tests import episodes as runs
from tests import fake_runner


def config(**changes):
  c = grpo.get_config('smoke,horizon')
  c.update_from_flattened_dict({
      'task.horizon': 4, 'window.turns': 4, 'steps': 4, 'log_every': 2, 'checkpoint.every': 4,
      'clone.steps': 0, 'evaluate.prompts': 4})
  c.model = dict(name='tabular', scale=1.0)
  with c.unlocked():
    c.update(changes)
  return c


class ScheduleTest(parameterized.TestCase):

  def test_stairs_and_ramps_by_hand(self):
    stairs = functools.partial(schedules.stairs, at=(3, 5), to=(1.0, -1.0, 0.5))
    np.testing.assert_array_equal([stairs(s) for s in (0, 2, 3, 4, 5, 9)],
                                  [1.0, 1.0, -1.0, -1.0, 0.5, 0.5])
    ramp = functools.partial(schedules.ramp, start=2, end=6, low=1.0, high=3.0)
    np.testing.assert_allclose([ramp(s) for s in (0, 2, 3, 6, 9)], [1.0, 1.0, 1.5, 3.0, 3.0])
    self.assertEqual(float(schedules.stairs(7, at=(), to=(2.0,))), 2.0)
    self.assertEqual(schedules.knobs({'a': lambda step: 2 * step}, dict(a=0, b=1), 3),
                     dict(a=6, b=1))

  @parameterized.parameters(
      (dict(manner=dict(name='stairs', at=(3,), to=(1.0,))), 'one value more than steps'),
      (dict(manner=dict(name='stairs', at=(3, 3), to=(1.0, 0.0, 1.0))), 'rising steps'),
      (dict(manner=dict(name='ramp', start=3, end=3, low=0.0, high=1.0)), 'end after it starts'),
      (dict(maner=dict(name='stairs', at=(), to=(1.0,))), "no knob 'maner'; nearest: manner"),
      (dict(manner=dict(name='stair', at=(), to=(1.0,))), 'nearest: stairs'))
  def test_what_cannot_work(self, schedule, message):
    with self.assertRaisesRegex(ValueError, message):
      parts = build.parts(config(schedule=schedule))
      parts.schedule['manner'](0)

  def test_an_audit_knows_no_schedule(self):
    c = config(schedule=dict(manner=dict(name='stairs', at=(), to=(1.0,))))
    c.audit.every = 2
    with self.assertRaisesRegex(ValueError, 'knows no schedule'):
      check.check(build.plain(c))

  def test_episodes_of_a_step_are_those_of_its_knobs(self):
    stairs = dict(manner=dict(name='stairs', at=(1,), to=(0.5, -1.0)))
    scheduled = build.parts(config(schedule=stairs))
    params = scheduled.policy.init(keys.root(1))

    @jax.jit
    def rewards(step, manner):
      plain = build.parts(config(), {'task.manner': manner})
      return [steps.sample(p, params, keys.root(0), step).rewards for p in (scheduled, plain)]

    for step, manner in ((0, 0.5), (1, -1.0), (2, -1.0)):
      got, want = rewards(step, manner)
      np.testing.assert_array_equal(got, want)
      self.assertGreater(np.sum(got), 0)
    self.assertFalse(np.array_equal(rewards(0, 0.5)[1], rewards(0, -1.0)[1]))


class MannerTest(absltest.TestCase):

  def test_routine_turns_pay_for_even_or_odd_actions(self):
    # Turns 0 and 2 decide, so each of turns 1 and 3 pays half of |manner|; the rest is the outcome.
    task = runs.build('horizon', max_turns=4)
    step = jax.jit(task.step)

    def paid(numbers, manner):
      knobs = task.knobs | dict(manner=manner)
      state, *_ = task.reset(keys.root(0), knobs)
      found = []
      for number in numbers:
        right = int(horizon.right_action(state, 4))
        out = step(state, jnp.asarray([1 + (right if number is None else number)]),
                   jnp.ones(1, bool), knobs)
        state = out.state
        found.append(float(out.reward))
      return np.round(found, 6).tolist(), float(out.success)

    self.assertEqual(paid((None, 2, None, 0), 0.6), ([0.0, 0.3, 0.0, 0.7], 1.0))
    self.assertEqual(paid((None, 2, None, 1), 0.6), ([0.0, 0.3, 0.0, 0.4], 1.0))
    self.assertEqual(paid((None, 1, None, 3), -1.0), ([0.0, 0.5, 0.0, 0.5], 1.0))
    self.assertEqual(paid((None, 7, None, 0), 1.0), ([0.0, 0.0, 0.0, 0.5], 1.0))  # no action
    self.assertEqual(paid((None, 2, None, 0), 0.0), ([0.0, 0.0, 0.0, 1.0], 1.0))

  def test_it_has_a_range(self):
    c = config()
    c.task.manner = -1.5
    with self.assertRaisesRegex(ValueError, r'task.manner: must be in \[-1, 1\]'):
      check.check(build.plain(c))


class CosineTest(absltest.TestCase):

  def test_by_hand(self):
    one, two = dict(a=jnp.asarray([3.0]), b=jnp.asarray([0.0, 4.0])), dict(
        a=jnp.asarray([1.0]), b=jnp.asarray([2.0, 2.0]))
    found = report.turned(one, two)['grad/cosine']
    self.assertAlmostEqual(float(found.total), (3 + 8) / (5 * 3), places=6)
    self.assertEqual(float(found.count), 1.0)
    none = report.turned(jax.tree.map(jnp.zeros_like, one), two)['grad/cosine']
    self.assertEqual((float(none.total), float(none.count)), (0.0, 0.0))

  def test_it_is_logged_where_asked_and_changes_nothing(self):
    c, scores = config(), []
    c.task.manner = 0.5  # so that no group is flat
    for compare in (0, 1):
      c.train.compare = compare
      folder = fake_runner.folder(self)
      scores.append(loop.run(c, seeds=[0, 1], workdir=folder)['success'])
      lines = [r for r in sinks.read(folder / 'metrics.jsonl') if 'seed' in r]
      for line in lines:
        self.assertEqual('grad/cosine' in line, bool(compare))
        self.assertBetween(line.get('grad/cosine', 0.0), -1.0, 1.0)
    np.testing.assert_array_equal(*scores)


if __name__ == '__main__':
  absltest.main()
