"""rollback and rollback_credit: budgets of the arms, and credit of episodes that share prefixes."""

import functools
import itertools

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.rollback import plot
from experiments.rollback import sweep
from experiments.rollback_credit import plot as credit_plot
from experiments.rollback_credit import run as credit
from grpo import build
from grpo import check
from grpo.rollout import branch
from grpo.study import audit
from grpo.study import frames
from grpo.study import judge
from grpo.study import tables
from scripts import cells
from scripts import launch
from tests import audit_test

CREDIT = dict(
    vine=dict(chunk=dict(name='turn'), advantages=dict(name='critic'),
              returns=dict(name='lambda_return', lam=0.0, discount=1.0, bootstrap='none')),
    tree=dict(chunk=dict(name='turn'), returns=dict(name='outcome'),
              advantages=dict(name='spo_tree')))


class CellsTest(parameterized.TestCase):

  @parameterized.parameters('smoke', 'small', 'full')
  def test_arms_play_as_many_rollouts_but_the_one_that_need_not(self, size):
    plan = launch.make_plan(sweep.cells(size))
    self.assertLen(plan, len(sweep.cells(size)))
    budget = sweep.PROMPTS[size] * sweep.GROUP
    for cell in plan.values():
      plain = build.plain(cells.resolve(cell))
      check.check(plain, {k: [v] * len(cell.seeds) for k, v in cell.scalars.items()},
                  len(cell.seeds))
      parts, sample = build.parts(plain, cell.scalars), plain['sample']
      kept = sample['prompts'] * sample['group']
      rows = sample['prompts'] * (parts.branch.rows if parts.branch else sample['group'])
      self.assertEqual(rows, kept * sweep.played(cell.arm), cell.arm)
      whole, share = (sweep.LESS | sweep.FEW).get(cell.arm, (cell.arm, 1))
      self.assertAlmostEqual(kept if whole == sweep.FREE else rows, share * budget, msg=cell.arm)
      self.assertEqual(plain['steps'], sweep.STEPS[size])
    self.assertIn(sweep.BASE, {cell.arm for cell in plan.values()})

  def test_turns_that_differ_are_as_many_as_the_plot_says(self):
    cell = {c.arm: c for c in sweep.cells('small')}
    for arm in (*sweep.TREES, 'vine'):
      plan = build.parts(build.plain(cells.resolve(cell[arm]))).branch
      turns = sum(len(set(line)) for line in plan.lineage_KG)
      self.assertAlmostEqual(turns / plan.lineage_KG.size, plot.ONCE, delta=0.05)

  def test_every_turn_that_decides_starts_a_branch(self):
    decisive = [t for t in range(sweep.TURNS) if t * sweep.DECISIVE % sweep.TURNS < sweep.DECISIVE]
    cell = next(c for c in sweep.cells('small') if c.arm == 'spo_tree')
    lineage_KG = build.parts(build.plain(cells.resolve(cell))).branch.lineage_KG
    forks = [t for t in range(1, sweep.TURNS) if (lineage_KG[t] != lineage_KG[t - 1]).any()]
    self.assertEqual([0, *forks], decisive)


class FindingsTest(parameterized.TestCase):

  def test_readme_states_the_findings(self):
    text = ' '.join((plot.HERE / 'README.md').read_text().split())
    found = plot.findings(tables.read(plot.HERE / 'curves.csv'))
    self.assertEqual(found['critic'], sweep.CRITICS[0])
    stated = [f'{arm}, {setting}' for arm, setting in itertools.product(
        (*sweep.arms('small'),), sweep.SETTINGS)]
    critic, group = found['critic'], sweep.BASE
    stated += [f'{arm} less {critic}, {budget}, all' for arm in (*sweep.TREES, 'vine')
               for budget in ('counted', 'once', 'less')]
    stated += [f'{arm} less {group}, counted, all' for arm in sweep.TREES]
    stated += [f'{arm} less {rival}, few, all' for arm in ('vine', 'vine_few')
               for rival in (critic, group)]
    stated += [f'{sweep.FREE} less {rival}, free, all' for rival in (critic, group)]
    stated += [f'{sweep.FREE} less {critic}, {setting} less undo 0'
               for setting in ('undo 1', 'undo 0, hidden')]
    stated += ['vine_few less critic_few, undo 1 less undo 0']
    for key in stated:
      self.assertIn(found[key].split(', p')[0], text, key)

  def test_readme_of_credit_states_the_findings(self):
    text = ' '.join((credit_plot.HERE / 'README.md').read_text().split())
    found = credit_plot.findings(frames.read(credit_plot.HERE / 'results.csv'))
    for arm, setting in itertools.product(credit_plot.SHOWN, sweep.SETTINGS):
      for key in ('sign', 'step_cosine'):
        if (key, arm) != ('sign', 'exact critic 0'):
          self.assertIn(found[f'{key}, {arm}, {setting}, step 20'], text)
    for setting in sweep.SETTINGS:
      self.assertIn(found[f'sign, critic 0.95 less group, {setting}, step 20'], text)
      self.assertIn(found[f'step_cosine, vine_free less critic 0.95, {setting}, step 20'], text)
    for turn in (0, 4):
      self.assertIn(found[f'rank, spo_tree less group, turn {turn}'], text)

  def test_a_seed_counts_once_over_all_settings(self):
    curves = [dict(arm=arm, setting=setting, seed=seed, step=step,
                   success=0.1 * seed + (0.2 + 0.01 * seed) * (arm == 'vine'))
              for arm in ('vine', 'group') for setting in ('undo 0', 'undo 1')
              for seed in range(3) for step in (0, 20)]
    each = plot.comparisons(curves, 'group', plot.BUDGETS['counted'])['vine']
    self.assertEqual((each['all'].pairs, each['undo 0'].pairs), (3, 3))
    self.assertAlmostEqual(each['all'].difference.point, 0.21)

  def test_once_reads_the_rival_earlier(self):
    curves = [dict(arm=arm, setting='undo 0', seed=seed, step=step, success=step / 20)
              for arm in ('vine', 'group') for seed in range(2) for step in range(0, 24, 4)]
    once = plot.comparisons(curves, 'group', plot.BUDGETS['once'])['vine']
    self.assertAlmostEqual(once['all'].difference.point, 0.4)


class CreditTest(parameterized.TestCase):

  def evidence(self, plan, own, only=('raw outcome',)):
    auditor = audit.Auditor(audit_test.actor(), prompts=8, group=8, only=only, plan=plan,
                            own=own and own | dict(shape={}))
    return auditor.run(audit_test.params(), batches=12, seed=1)

  @functools.cached_property
  def plain(self):
    return self.evidence(None, None, ('raw outcome', 'exact critic, lambda 0'))

  def test_many_continuations_are_the_exact_critic(self):
    many = branch.monte_carlo(group=8, turns=audit_test.TURNS, samples=64)
    found, plain = self.evidence(many, CREDIT['vine']), self.plain
    # Rows that are trained on are the same with and without continuations.
    np.testing.assert_array_equal(found.success, plain.success)
    np.testing.assert_array_equal(found.state, plain.state)
    np.testing.assert_allclose(found.estimate[:, found.names.index('raw outcome')],
                               plain.estimate[:, plain.names.index('raw outcome')])
    mine = found.estimate[:, 1][found.on]
    exact = plain.estimate[:, plain.names.index('exact critic, lambda 0')][plain.on]
    error = np.sqrt(np.mean((mine - exact) ** 2))
    self.assertLess(error, 2 ** 0.5 * 0.5 / 8)  # two means of 64, each with spread 1/2 at most
    one = self.evidence(branch.monte_carlo(group=8, turns=audit_test.TURNS, samples=1),
                        CREDIT['vine'])
    noise = lambda e: {r['estimator']: r for r in judge.rows(e, samples=2)}[audit.OWN]['noise']
    self.assertGreater(noise(one), 3 * noise(found))

  def test_a_tree_credits_nodes_that_are_shared(self):
    # Two trees that fork after each turn: rows 0 to 3 share the first turn, 0 and 1 the second.
    plan = branch.tree(group=8, turns=audit_test.TURNS, trees=2, width=2, every=1)
    found = self.evidence(plan, CREDIT['tree'])
    own, outcome = found.estimate[:, 1], found.success
    np.testing.assert_allclose(own[:, :, 0, 0], own[:, :, 3, 0], atol=1e-6)
    mean = lambda rows: outcome[:, :, rows].mean(axis=2)
    np.testing.assert_allclose(own[:, :, 0, 0], mean(slice(0, 4)) - mean(slice(0, 8)), atol=1e-6)
    np.testing.assert_allclose(own[:, :, 0, 2], outcome[:, :, 0] - mean(slice(0, 2)), atol=1e-6)

  def test_a_plan_of_another_group_is_refused(self):
    with self.assertRaisesRegex(ValueError, 'keeps 4 rows, and group is 8'):
      self.evidence(branch.tree(group=4, turns=3, trees=2, width=2, every=1), None)

  def test_auditors_see_as_many_rows(self):
    made = credit.auditors('small', looks=1)
    self.assertSameElements(made, [sweep.BASE, *sweep.TREES, *sweep.CONTINUATIONS])
    rows = {count * auditor._sizes[0] for auditor, count in made.values()}
    self.assertLen(rows, 1)
    names = [n for a, _ in made.values() for n in a.names]
    self.assertEqual(names.count(audit.OWN), 5)


if __name__ == '__main__':
  absltest.main()
