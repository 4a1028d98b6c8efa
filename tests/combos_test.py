"""Several knobs at once, at their ends: no combination breaks what each of them keeps alone.

Random actions, some of them no words at all, in the tasks that have most knobs.
"""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.tasks import scenes
from tests import episodes as runs

TURNS, COUNT = 40, 64
SIZES = dict(horizon=dict(goals=2, max_sources=3), line={}, meeting={}, triage={})
HALF = dict(visibility=0.5, drift=0.4, undo=0.5, switch=0.4, unreliable=0.5)
FULL = dict.fromkeys(HALF, 1)
COMBOS = dict(
    horizon=(dict(horizon=4, decisive=4, delay=3, **FULL), dict(horizon=1, decisive=0, **HALF),
             dict(decisive=TURNS, sources=3, unmarked=0.5, **HALF),
             dict(delay=TURNS - 1, decisive=2, sources=2, unmarked=1, **FULL)),
    line=(dict(horizon=15, decisive=4, delay=3, rules=2, partial=0.5, **FULL),
          dict(horizon=12, delay=11, rules=1, heldout=1, **HALF),
          dict(decisive=3, delay=TURNS - 1, partial=1, **HALF), dict(horizon=13, **FULL)),
    meeting=(dict(horizon=4, roles=3, delay=3, rules=2, partial=0.5, **FULL),
             dict(horizon=1, roles=2, heldout=1, **HALF),
             dict(roles=3, delay=TURNS - 1, rules=1, partial=1, **HALF), dict(rules=2, **HALF)),
    triage=(dict(horizon=4, sources=3, delay=3, rules=2, partial=0.5, **FULL),
            dict(horizon=1, sources=2, heldout=1, **HALF),
            dict(sources=3, delay=TURNS - 1, rules=1, partial=1, **HALF), dict(rules=2, **HALF)))


@functools.cache
def programs(name):
  """(task, episodes of knobs and kind of actions, one step, one identity), all compiled.

  Kinds: 0 random ids, 1 the expert's word or a random id, 2 the first word again and again, 3 the
  second one, ...
  """
  task = runs.build(name, max_turns=TURNS, **SIZES[name])

  def play(knobs, i, kind):
    key = jax.random.fold_in(keys.root(0), i)
    state, prompt, _ = task.reset(jax.random.fold_in(key, 0), knobs)
    draws = jax.random.uniform(jax.random.fold_in(key, 2), (TURNS, 3))

    def turn(carry, draw):
      state, alive = carry
      wild = jnp.where(draw[0] < 0.1, -7, (draw[1] * 1.05 * len(task.vocab)).astype(jnp.int32))
      wise = task.expert(state, None)[0][0]
      word = jnp.where(kind == 0, wild, jnp.where(kind > 1, kind - 1, jnp.where(
          draw[2] < 0.7, wise, wild)))
      real = (draw[0] < 0.95) | (kind >= 2)
      out = task.step(state, word[None], real[None], knobs)
      record = dict(out=out, word=word, real=real, wise=wise, alive=alive,
                    identity=task.state_id(out.state))
      return (out.state, alive & ~out.terminated & ~out.truncated), record

    first = task.reseed(state, jax.random.fold_in(key, 1))
    return dict(prompt=prompt, start=state) | jax.lax.scan(turn, (first, jnp.asarray(True)),
                                                           draws)[1]

  run = jax.jit(lambda knobs, kind: jax.vmap(lambda i: play(knobs, i, kind))(jnp.arange(COUNT)))
  return task, run, jax.jit(task.step), jax.jit(task.state_id)


def traced(task, knobs):
  return {k: jnp.float32(v) for k, v in (task.knobs | knobs).items()}


@functools.cache
def episodes(name, number, kind):
  task, run, *_ = programs(name)
  return jax.tree.map(np.asarray, run(traced(task, COMBOS[name][number]), jnp.int32(kind)))


EACH = tuple((name, i) for name in COMBOS for i in range(len(COMBOS[name])))


class CombosTest(parameterized.TestCase):

  @parameterized.parameters(*EACH)
  def test_ends_rewards_and_words(self, name, number):
    task, knobs = programs(name)[0], COMBOS[name][number]
    for kind in (0, 1):
      record = episodes(name, number, kind)
      out, alive = record['out'], record['alive']
      over = out.terminated | out.truncated
      self.assertFalse(np.any(out.terminated & out.truncated & alive))
      np.testing.assert_array_equal((over & alive).sum(axis=1), 1)
      self.assertLessEqual(alive.sum(axis=1).max(), knobs.get('horizon', TURNS))
      self.assertTrue(np.all((out.reward >= 0) & (out.reward <= 1)))
      self.assertTrue(np.all(np.isin(out.success, (0, 1))))
      for score in (out.reward, out.success):
        np.testing.assert_array_equal(score[alive & ~over], 0)
        np.testing.assert_array_equal(score[alive & out.truncated], 0)
      self.assertTrue(np.all((record['wise'] > 0) & (record['wise'] < len(task.vocab))))
      seen, real = out.observation[alive], out.valid[alive]
      self.assertTrue(np.all((seen[real] > 0) & (seen[real] < len(task.vocab))))
      self.assertTrue(np.all(seen[~real] == 0))
      self.assertTrue(np.all(real[:, 1:] >= real[:, :-1]), 'padding is on the left')
      for tokens, valid in zip(seen[:50], real[:50]):
        self.assertEqual(scenes.parse(task, task.render(tokens, valid)), tokens[valid].tolist())
      if 'heldout' in task.knobs:
        held = record['start'].number % scenes.FOLDS == 0
        self.assertTrue(np.all(held == knobs.get('heldout', 0)))

  @parameterized.parameters(*EACH)
  def test_a_stored_state_goes_on_alone_as_it_did_in_the_batch(self, name, number):
    task, _, step, identity = programs(name)
    knobs, record = traced(task, COMBOS[name][number]), episodes(name, number, 1)
    for i, first in ((0, 0), (1, 0), (2, 7)):
      state = jax.tree.map(lambda x: jnp.asarray(x[i, first].copy()), record['out'].state)
      for t in range(first + 1, first + 4):
        out = step(state, jnp.asarray(record['word'][i, t, None]),
                   jnp.asarray(record['real'][i, t, None]), knobs)
        jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[i, t]), out, record['out'])
        self.assertEqual(int(identity(out.state)), int(record['identity'][i, t]))
        state = out.state

  def test_changes_of_product_that_nobody_makes_give_the_line_no_time(self):
    task, run, *_ = programs('line')
    for knobs in (dict(horizon=12, delay=3, switch=0.4), dict(horizon=24, delay=4, switch=1),
                  dict(horizon=12, delay=11), dict(delay=TURNS - 1, switch=0.1),
                  dict(horizon=12, delay=1, switch=1), dict(horizon=12, delay=2, switch=1)):
      for kind in (0, 2, 1 + task.vocab.index('adjust')):
        record = run(traced(task, knobs), jnp.int32(kind))
        paid = np.asarray(record['out'].success * record['alive']).sum(axis=1)
        self.assertEqual(paid.max(), 0, (knobs, kind))


if __name__ == '__main__':
  absltest.main()
