"""Rollouts that share prefixes: what is shared, what is fresh, and that their values are right."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo import types
from grpo.models import scoring
from grpo.models import tabular
from grpo.models import transformer
from grpo.objective import chunks
from grpo.objective import method
from grpo.objective import trees
from grpo.rollout import branch
from grpo.rollout import sampler
from grpo.tasks import horizon
from tests import rollouts
from tests import toy

partial = functools.partial


def run(policy, params, task, layout, knobs, rows, lineage, *, prompts=2, temperature=0.7):
  sample = partial(sampler.sample, policy, task=task, layout=layout, knobs=task.knobs | knobs,
                   step=3, prompts=prompts, samples=rows, temperature=temperature, lineage=lineage)
  return jax.jit(lambda params, key: sample(params=params, key=key))(params, keys.root(1))


def steps(actions=2, **knobs):
  """The horizon task, a policy that mostly emits actions, and a runner."""
  task = horizon.make(actions=actions, max_turns=4)
  layout = types.Layout(2, 1, 2, task.max_turns)
  policy = tabular.policy(len(task.vocab), layout.length)
  table = np.full((layout.length, policy.vocab, policy.vocab), -2.0, np.float32)
  table[..., 1:1 + actions] = 2.0
  return task, lambda rows, lineage, prompts=2: run(
      policy, {'table': jnp.asarray(table)}, task, layout, knobs, rows, lineage, prompts=prompts,
      temperature=1.0)


class PlanTest(parameterized.TestCase):

  def test_tree(self):
    plan = branch.tree(group=8, turns=5, trees=2, width=2, every=2)
    np.testing.assert_array_equal(plan.lineage_KG, [
        [0, 0, 0, 0, 4, 4, 4, 4], [0, 0, 0, 0, 4, 4, 4, 4],
        [0, 0, 2, 2, 4, 4, 6, 6], [0, 0, 2, 2, 4, 4, 6, 6], [0, 1, 2, 3, 4, 5, 6, 7]])
    self.assertEqual((plan.rows, plan.kept), (8, 8))

  def test_monte_carlo(self):
    # Two samples, turns 0 and 2 of 3 are boundaries, one continuation each: rows 2, 3 and 4, 5.
    plan = branch.monte_carlo(group=2, turns=3, samples=1, every=2)
    np.testing.assert_array_equal(
        plan.lineage_KG, [[0, 1, 2, 3, 0, 1], [0, 1, 2, 3, 0, 1], [0, 1, 2, 3, 4, 5]])
    np.testing.assert_array_equal(plan.nodes_KG, [[0, 1]] * 3)

  def test_leaders_lead_themselves(self):
    for plan in (branch.tree(group=12, turns=9, trees=3, width=2, every=3),
                 branch.monte_carlo(group=3, turns=4, samples=2)):
      for row in plan.lineage_KG:
        np.testing.assert_array_equal(row[row], row)
        self.assertTrue(np.all(row <= np.arange(plan.rows)))

  @parameterized.parameters(
      (partial(branch.tree, group=6, turns=9), 'sample.group=6 must be trees=2'),
      (partial(branch.tree, group=8, turns=1), 'forks at turn 2, and episodes have 1 turns'),
      (partial(branch.monte_carlo, group=2, turns=1, samples=0), 'must be at least 1'))
  def test_refused(self, make, message):
    with self.assertRaisesRegex(ValueError, message):
      make()


class SharingTest(parameterized.TestCase):

  @parameterized.parameters((dict(turns=6),), (dict(turns=2, segments=2, carry=2),))
  def test_a_tree_shares_its_prefixes_and_nothing_else(self, shape):
    task = toy.chatter(turns=5)
    layout = toy.layout(task, **shape)
    policy = transformer.policy(toy.TINY)
    params = jax.tree.map(lambda x: 2 * x, jax.jit(policy.init)(keys.root(0)))
    plan = branch.tree(group=4, turns=layout.max_turns, trees=2, width=2, every=2)
    r = run(policy, params, task, layout, {}, 4, plan.lineage_KG)
    logp = jax.jit(lambda p, r: scoring.logps(policy, p, r, layout, 0.7))(params, r)
    np.testing.assert_allclose(logp, r.logp, 1e-5, 1e-5)
    r = jax.tree.map(np.asarray, r)
    for name in ('tokens', 'logp', 'rewards', 'state_id', 'mask'):
      x, turn = (types.stream(y) for y in (getattr(r, name), r.turn))
      for a, b, shared in ((0, 1, True), (2, 3, True), (0, 2, False)):
        for k in range(5):
          same = np.array_equal(x[:, a][turn[:, a] == k], x[:, b][turn[:, b] == k])
          if shared and k < 2:
            self.assertTrue(same, f'{name} {a} {b} turn {k}')
          elif name == 'logp':
            self.assertFalse(same, f'{name} {a} {b} turn {k}')

  def test_noise_is_fresh_after_the_fork(self):
    """Nearly greedy samples act alike on what they see; only the noise of the task parts them."""
    task = toy.chatter(turns=4, stops=())
    layout = toy.layout(task, turns=4)
    policy = tabular.policy(toy.VOCAB, 64)
    table = np.random.default_rng(0).normal(size=(64, toy.VOCAB, toy.VOCAB)).astype('f')
    plan = branch.tree(group=2, turns=4, trees=1, width=2, every=2)
    r = run(policy, {'table': jnp.asarray(table)}, task, layout, {}, 2, plan.lineage_KG, prompts=8,
            temperature=1e-3)
    turns = np.asarray(r.tokens)[:, :, 0, layout.prompt:].reshape(8, 2, 4, layout.turn)
    # Turn 2 is acted on the same view; what it brings differs.
    np.testing.assert_array_equal(turns[:, 0, :2], turns[:, 1, :2])
    np.testing.assert_array_equal(turns[:, 0, 2, :layout.action], turns[:, 1, 2, :layout.action])
    differs = np.any(turns[:, 0, 2, layout.action:] != turns[:, 1, 2, layout.action:], axis=1)
    self.assertGreater(differs.mean(), 0.7)

  def test_own_leaders_and_continuations_change_no_sample(self):
    _, go = steps(drift=0.3)
    plan = branch.monte_carlo(group=3, turns=4, samples=2)
    want = go(3, None)
    for got in (go(3, np.tile(np.arange(3), (4, 1))), branch.kept(plan, go(plan.rows,
                                                                         plan.lineage_KG))):
      jax.tree.map(np.testing.assert_array_equal, got, want)


class ValuesTest(parameterized.TestCase):

  def values(self, plan, played):
    """Values [P,G,turns] and the rollout that is trained on."""
    r = jax.tree.map(np.asarray, branch.kept(plan, played))
    value = np.asarray(branch.values(plan, played))
    on = types.stream(r.mask)
    np.testing.assert_array_equal(value[~on], 0.0)
    return value[on].reshape(*on.shape[:2], -1), r

  def test_exact_where_the_outcome_is_settled(self):
    """One decisive turn, the first: from turn 1 on the value is the outcome, for each sample."""
    _, go = steps(decisive=1)
    plan = branch.monte_carlo(group=4, turns=4, samples=3)
    value, r = self.values(plan, go(plan.rows, plan.lineage_KG, prompts=16))
    self.assertGreater(r.success.std(), 0.2)
    for k in (1, 2, 3):
      np.testing.assert_array_equal(value[..., k], r.success)

  def test_means_agree_with_the_chance_of_success(self):
    """Two decisive turns, 0 and 2. From turn 1 an undamaged sample succeeds with probability p."""
    task, go = steps(decisive=2)
    # Two actions of 16 tokens at logit 2, the others at -2.
    p = np.exp(2.0) / (2 * np.exp(2.0) + (len(task.vocab) - 2) * np.exp(-2.0))
    plan = branch.monte_carlo(group=4, turns=4, samples=8)
    value, r = self.values(plan, go(plan.rows, plan.lineage_KG, prompts=64))
    fine = (types.stream(r.state_id)[types.stream(r.mask)].reshape(value.shape) - 1) % 6 // 2 == 0
    np.testing.assert_array_equal(value[~fine], 0.0)
    count = fine[..., 1].sum() * 8
    self.assertLess(abs(value[..., 1][fine[..., 1]].mean() - p), 4 * np.sqrt(p * (1 - p) / count))
    self.assertLess(abs(value[..., 0].mean() - p**2), 4 * np.sqrt(p**2 / (64 * 4 * 8)))
    # Fresh streams: continuations of one state are not copies of each other, nor of the sample.
    self.assertGreater(np.unique(value[..., 1][fine[..., 1]]).size, 3)
    self.assertGreater(np.mean((value[..., 1] != r.success)[fine[..., 1]]), 0.5)

  def test_boundaries_apart(self):
    _, go = steps(decisive=1)
    plan = branch.monte_carlo(group=2, turns=4, samples=2, every=2)
    value, r = self.values(plan, go(plan.rows, plan.lineage_KG, prompts=8))
    np.testing.assert_array_equal(value[..., 0], value[..., 1])
    np.testing.assert_array_equal(value[..., 2], r.success)

  def test_shared_turns_have_shared_credit(self):
    _, go = steps(decisive=4)
    plan = branch.tree(group=8, turns=4, trees=2, width=2, every=1)
    rollout = go(8, plan.lineage_KG, prompts=4)
    zero = jnp.zeros(types.stream(rollout.mask).shape)
    for function in (trees.shared_prefix, trees.treerl, trees.spo_tree):
      slots = rollouts.make(chunk=partial(chunks.turn, count=4), advantages=function)
      credit = jax.jit(lambda r, slots=slots: method.credit(
          slots, r, old_logp_PGT=zero, nodes_KG=plan.nodes_KG))(rollout)
      a = np.asarray(credit.advantages_PGT)[np.asarray(credit.mask_PGT)].reshape(4, 8, 4)
      self.assertGreater(np.abs(a).max(), 0.1)
      for k in range(4):
        np.testing.assert_array_equal(a[:, :, k], a[:, plan.nodes_KG[k], k])


if __name__ == '__main__':
  absltest.main()
