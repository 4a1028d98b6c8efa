"""Information gain: answers of tasks, their probabilities, turn rewards, and training on them."""

import dataclasses
import importlib

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import base
from configs import igpo
from grpo import build
from grpo import check
from grpo import keys
from grpo import tasks
from grpo import types
from grpo.learn import loop
from grpo.models import scoring
from grpo.objective import gae
from grpo.objective import method
from grpo.rollout import sampler
from tests import draws
from tests import rollouts
from tests import worked


def plain(spec='smoke,triage', **overrides):
  return build.plain(igpo.get_config(spec), {k.replace('__', '.'): v for k, v in overrides.items()})


class ReturnsTest(parameterized.TestCase):

  @draws.times(25)
  def test_parity(self, shape, share, seed):
    rng = np.random.default_rng(seed)
    valid = rng.random(shape) < share
    x, g = rng.random(shape), rng.random(shape)
    context = dataclasses.replace(
        rollouts.context(valid, truncated=rng.random(shape[:2]) < 0.5),
        answer_PGK=jnp.asarray(np.where(valid, g, np.nan), jnp.float32))
    got = gae.information_gain(jnp.asarray(np.where(valid, x, np.inf), jnp.float32), valid, context)
    for p, s in np.ndindex(*shape[:2]):
      want, at = np.zeros(shape[2]), np.flatnonzero(valid[p, s])
      for i, k in enumerate(at):
        want[k] = x[p, s, k]
        if i + 1 < len(at):
          want[k] += g[p, s, at[i + 1]] - g[p, s, k]
      np.testing.assert_allclose(got[p, s], want, 1e-5, 1e-6)

  @parameterized.parameters('joint', 'separate')
  def test_worked_example_through_the_config(self, joint):
    inputs, expected = worked.case('igpo')
    g = np.array(inputs['answer_probability_per_prefix'])[None]
    # Two tokens a turn, of which the second earns.
    wide = lambda x: np.repeat(x, 2, axis=2).astype('f')
    reward = np.zeros((1, 3, 6), 'f')
    reward[0, :, -1] = inputs['outcome_reward']
    rollout = rollouts.rollout(np.ones(reward.shape, bool), reward,
                               turn=wide(np.broadcast_to(np.arange(3), g.shape)).astype(int))
    slots = build.parts(plain(method__advantages=dict(name='igpo', joint=joint))).method
    zero = jnp.zeros(reward.shape)
    got = jax.jit(lambda r: method.credit(slots, r, old_logp_PGT=zero,
                                          answer_PGT=jnp.asarray(wide(g))).advantages_PGT)(rollout)
    want = np.array(expected[f'{joint}_normalised_then_accumulated'])
    np.testing.assert_allclose(got[0], np.repeat(want, 2, axis=1), 1e-5, 1e-5)

  def test_without_an_answer(self):
    x = jnp.ones((1, 2, 3))
    with self.assertRaisesRegex(ValueError, 'no answer'):
      gae.information_gain(x, x > 0, rollouts.context(x > 0))


class AnswerTest(parameterized.TestCase):

  def test_tasks_that_have_one(self):
    have = [name for name in tasks.__all__
            if importlib.import_module(f'grpo.tasks.{name}').make().answer is not None]
    self.assertSameElements(check.ANSWER, have)

  @parameterized.parameters(*check.ANSWER)
  def test_it_solves_the_episode_at_any_turn(self, name):
    task = importlib.import_module(f'grpo.tasks.{name}').make()
    self.assertEqual(task.action_len, 1)

    def play(key):
      state, _, _ = task.reset(key, task.knobs)
      first, on, wins = task.answer(state), jnp.ones(1, bool), []
      for turn in range(3):
        wins.append(task.step(state, first[None], on, task.knobs).success)
        waits = jnp.full(1, task.vocab.index('wait'), jnp.int32)
        word = task.expert(state, key)[0] if turn == 0 else waits
        state = task.step(state, word, on, task.knobs).state
        wins.append((task.answer(state) == first).astype(jnp.float32))
      return jnp.stack(wins)

    wins = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), 64))
    np.testing.assert_array_equal(wins, 1.0)

  def test_probability_is_that_of_the_answer_in_the_place_of_the_action(self):
    parts = build.parts(plain(model=base.slot('transformer', layers=1, hidden=16, heads=2,
                                              kv_heads=1, head_dim=8, mlp=16, tied=True,
                                              qk_norm=False, theta=1e4, dtype='float32').to_dict(),
                              task__horizon=3, window__turns=3, task__max_turns=3))
    params = jax.jit(parts.policy.init)(keys.root(0))
    score = lambda r: scoring.logps(parts.policy, params, r, parts.layout, 0.7)

    @jax.jit
    def run(key):
      r = sampler.sample(parts.policy, params, parts.task, parts.layout, parts.knobs, key, step=0,
                         prompts=3, samples=2, temperature=0.7)
      answer_P = jnp.array([9, 10, 11])
      got = scoring.answers(parts.policy, params, r, parts.layout, 0.7, answer_P)
      other = []
      for k in range(3):   # one turn at a time, as what stands before it must stay
        swapped = jnp.where(r.turn == k, answer_P[:, None, None, None], r.tokens)
        other.append(jnp.where(r.turn == k, score(dataclasses.replace(r, tokens=swapped)), 0.0))
      return got, sum(other), r.mask

    got, want, mask = run(keys.root(1))
    np.testing.assert_allclose(got, want, atol=1e-5)
    self.assertTrue(np.all(np.asarray(got)[np.asarray(mask)] < 0))


class StepTest(parameterized.TestCase):

  @pytest.mark.slow
  def test_two_steps_and_resampled_prompts(self):
    c = plain(model=base.slot('tabular').to_dict(), log_every=1, sample__lag=1)
    check.check(c)
    programs = loop.Programs(c)
    state = programs.initial(np.arange(1, dtype=np.int32), None, ())
    for _ in range(2):
      state, metrics, _ = programs.stretch(state, ())
    self.assertEqual(state.bad_step.tolist(), [-1])
    self.assertEqual(programs.stretch._cache_size(), 1)
    found = metrics.unpack()
    self.assertGreater(float(found['advantage/abs'].total[0]), 0.0)
    self.assertTrue(np.isfinite(metrics.totals).all())

  @parameterized.parameters(
      ('smoke,horizon', {}, 'task horizon has no answer of one token'),
      ('smoke,triage', dict(task__drift=0.1), 'task.drift=0.1 changes the answer'),
      ('smoke,meeting', dict(task__switch=0.1), 'task.switch=0.1 changes the answer'),
      ('smoke,meeting,interventions', dict(task__switch_at=2), 'task.switch_at=2 changes'),
      ('smoke,triage,interventions', dict(task__switch_at=0), 'task.switch_at=0 changes'),
      ('smoke,meeting', dict(method__chunk=dict(name='turns', length=2)), 'use turn'),
  )
  def test_refused(self, spec, overrides, message):
    with self.assertRaisesRegex(ValueError, message):
      check.check(plain(spec, **overrides))

  def test_a_moving_clock_changes_no_answer(self):
    check.check(plain('smoke,meeting', task__drift=0.1))
    self.assertIsInstance(build.parts(plain('smoke,meeting')).layout, types.Layout)


if __name__ == '__main__':
  absltest.main()
