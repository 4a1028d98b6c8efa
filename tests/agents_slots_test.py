"""Slots for agents: the relative filter, a critic of finished rows, errors, and refused configs."""

import functools
import importlib
import pathlib

from absl.testing import absltest
from absl.testing import parameterized
import hypothesis
from hypothesis import strategies
import jax
import jax.numpy as jnp
import numpy as np

from configs import base
from grpo import build
from grpo import check
from grpo import tasks
from grpo.objective import agents
from grpo.objective import anchors
from grpo.objective import chunks
from grpo.objective import filters
from grpo.objective import gae
from grpo.objective import method
from grpo.objective import returns
from grpo.objective import trees
from grpo.tasks import horizon
from tests import reference_agents as slow
from tests import rollouts

partial = functools.partial
some = hypothesis.settings(max_examples=25, deadline=None, derandomize=True)


class FilterTest(parameterized.TestCase):

  def test_worked_example(self):
    # std 0.5, 0, 0.43, 0.5: half of the prompts are 0 and 3; a quarter is the first of the two.
    reward = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 0, 1]], np.float32)
    valid = np.ones((4, 4), bool)
    run = jax.jit(lambda x, f: filters.uncertain(rollouts.facts(x, valid), fraction=f))
    for fraction, want in ((0.5, [1, 0, 0, 1]), (0.25, [1, 0, 0, 0]), (1.0, [1, 0, 1, 1]),
                           (0.01, [1, 0, 0, 0])):
      np.testing.assert_array_equal(run(reward, fraction), np.array(want, bool)[:, None] & valid)
    np.testing.assert_array_equal(run(np.zeros((4, 4), 'f'), 1.0), False)

  @some
  @hypothesis.given(seed=strategies.integers(0, 2**32 - 1),
                    levels=strategies.sampled_from((1, 2, 3, 1000)),
                    fraction=strategies.sampled_from((0.1, 0.25, 0.5, 0.9)))
  def test_parity(self, seed, levels, fraction):
    rng = np.random.default_rng(seed)
    reward, valid = rng.integers(0, levels, (7, 4)).astype('f'), rng.random((7, 4)) < 0.8
    got = np.asarray(_uncertain(reward, valid, fraction))
    np.testing.assert_array_equal(got[:, 0], slow.uncertain(reward, valid, fraction))


_uncertain = jax.jit(lambda x, ok, f: filters.uncertain(rollouts.facts(x, ok), fraction=f))


class ErrorTest(parameterized.TestCase):

  @parameterized.parameters(
      (partial(anchors.gigpo, normalise='std'), 'allowed: mean, mean_std'),
      (partial(anchors.hgpo, normalise='std'), 'allowed: mean, mean_std'),
      (anchors.gigpo, 'needs the rewards of chunks'), (agents.mt_grpo, 'needs the rewards'),
      (partial(agents.igpo, joint='both'), 'allowed: joint, separate'),
      (agents.empg, 'needs the entropy'), (trees.treerl, 'set method.branch'),
      (partial(agents.mixed_baseline, weight=0.5), 'needs the values of a critic'),
      (partial(gae.potential_look_ahead, n=0), 'has no potential'),
      (partial(gae.adaptive_cross_segment_return, alpha=1.0, length='x'), 'rollout, segment'))
  def test_errors_say_what_is_missing(self, function, message):
    valid = np.ones((1, 2, 2), bool)
    with self.assertRaisesRegex(ValueError, message):
      jax.eval_shape(lambda x: function(x, valid, rollouts.context(valid)), jnp.ones((1, 2, 2)))


class CriticTest(parameterized.TestCase):

  def test_rows_that_are_fitted(self):
    mask = np.array([[[1, 1], [1, 1]]], bool)
    rollout = rollouts.rollout(mask, 1.0 * mask, truncated=np.array([[True, False]]))
    for rows, want in (('all', [[1, 1], [1, 1]]), ('finished', [[0, 0], [1, 1]])):
      slots = rollouts.make(
          chunk=chunks.token, returns=partial(returns.lambda_return, lam=1.0, bootstrap='repeat'),
          critic=rollouts.critic_spec(rows=rows, bootstrap='repeat'))
      got = method.credit(slots, rollout, old_logp_PGT=jnp.zeros(mask.shape),
                          values_PGT=jnp.ones(mask.shape))
      np.testing.assert_array_equal(got.value_mask_PGT[0], np.array(want, bool))
      # The policy learns from both; the cut row ends with its last value, the other with nothing.
      np.testing.assert_array_equal(got.mask_PGT, mask)
      np.testing.assert_allclose(got.targets_PGT[0], [[3, 2], [2, 1]])
    with self.assertRaisesRegex(ValueError, 'allowed are all, finished'):
      rollouts.critic_spec(rows='some')


class PotentialTest(parameterized.TestCase):

  def test_horizon(self):
    task = horizon.make(actions=2, max_turns=4)
    zero = jnp.int32(0)
    for turn in range(5):
      for damage in (horizon.OK, horizon.HURT, horizon.LOST):
        for mode in (0, 1):
          state = horizon.State(zero + turn, zero + 1, zero + mode, zero + damage, zero, None)
          got = task.potential(task.state_id(state), dict(horizon=4))
          self.assertEqual(float(got), turn / 4 if damage == horizon.OK else 0.0)

  def test_tasks_that_have_one(self):
    have = [name for name in tasks.__all__
            if importlib.import_module(f'grpo.tasks.{name}').make().potential is not None]
    self.assertSameElements(check.POTENTIAL, have)


def plain(name, **overrides):
  config = importlib.import_module(f'configs.{name}').get_config('smoke')
  return build.plain(config, {k.replace('__', '.'): v for k, v in overrides.items()})


class CheckTest(parameterized.TestCase):

  @parameterized.parameters(
      ('gigpo', dict(method__chunk=base.slot('whole').to_dict()), 'is about turns'),
      ('gigpo', dict(sample__group=1), 'sample.group=1'),
      ('bilevel_gae', dict(method__chunk=dict(name='turn')), 'is about tokens'),
      ('compaction_rl', dict(method__critic=dict(name='none')), 'needs a critic'),
      ('treerl', dict(method__branch=dict(name='none')), 'set method.branch to tree'),
      ('treerl', dict(method__chunk=dict(name='whole')), 'reach across a fork'),
      ('treerl', dict(method__chunk__length=3), 'that divides method.branch.every=2'),
      ('spo_tree', dict(method__returns=dict(name='reward_to_go')), 'use outcome'),
      ('vine_ppo', dict(sample__lag=1), 'use lag 0'),
      ('vine_ppo', dict(method__chunk=dict(name='token')), 'values are known every'),
      ('spo_chain', dict(method__chunk__length=3), 'values are known every'),
      ('vine_ppo', dict(method__returns__bootstrap='critic'), 'use none'),
      ('vine_ppo', dict(method__critic=base.value_critic().to_dict()), 'both give values'),
      ('vine_ppo', dict(method__returns=dict(name='outcome'), method__advantages=dict(name='raw')),
       'no slot reads values'),
      ('t_ppo', dict(method__critic__rows='some'), 'method.critic.rows'),
      ('mt_grpo', dict(task=base.get_config('smoke,arithmetic').task.to_dict()),
       'arithmetic has no potential'),
  )
  def test_refused(self, name, overrides, message):
    with self.assertRaisesRegex(ValueError, message):
      check.check(plain(name, **overrides))

  @parameterized.parameters(
      (dict(sample__group=6), 'sample.group=6 must be trees=2'),
      (dict(task=base.get_config('smoke,arithmetic').task.to_dict()), 'episodes have 1 turns'),
      (dict(method__branch=dict(name='tre')), 'tree'))
  def test_bad_branches_are_refused(self, overrides, message):
    with self.assertRaisesRegex(ValueError, message):
      build.parts(plain('treerl', **overrides))

  def test_every_config_passes_in_every_size(self):
    folder = pathlib.Path(__file__).resolve().parents[1] / 'configs'
    for path in folder.glob('[!_]*.py'):
      if path.stem not in ('base', '__init__', 'llm'):
        for size in base.SIZES:
          spec = f'{size},triage' if path.stem == 'igpo' else size   # horizon has no answer
          config = importlib.import_module(f'configs.{path.stem}').get_config(spec)
          check.check(build.plain(config))
          build.parts(config)


if __name__ == '__main__':
  absltest.main()
