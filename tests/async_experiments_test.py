"""The experiments that take SAO apart: their cells, and what their tables make of the results."""

from absl.testing import absltest
from absl.testing import parameterized

from experiments.matrix import sweep as matrix
from experiments.reward_switch import sweep as reward_switch
from experiments.sao_critic import run as sao_critic
from experiments.sao_parts import sweep as sao_parts
from experiments.sao_stability import sweep as sao_stability
from experiments.staleness import sweep as staleness
from grpo import build
from grpo import check
from grpo.rollout import staleness as lines
from scripts import cells
from scripts import launch


def played(cell):
  """Rollouts that a cell trains on; it is legal and can be built."""
  plain = build.plain(cells.resolve(cell))
  check.check(plain, {k: [v] * len(cell.seeds) for k, v in cell.scalars.items()}, len(cell.seeds))
  build.parts(plain, cell.scalars)
  sample = plain['sample']
  return sample['prompts'] * sample['group'] * plain['steps'], plain


class CellsTest(parameterized.TestCase):

  @parameterized.product(sweep=(sao_stability, sao_parts, reward_switch, matrix),
                         size=('smoke', 'small'))
  def test_cells_are_legal_and_play_the_same_rollouts(self, sweep, size):
    plan = launch.make_plan(sweep.cells(size))
    self.assertLen(plan, len(sweep.cells(size)))
    self.assertLen({played(cell)[0] for cell in plan.values()}, 1)
    self.assertIn(sweep.BASE, {cell.arm for cell in plan.values()})
    if size == 'small':  # the pilots had seeds 100 and 101
      self.assertEqual({cell.seeds for cell in plan.values()}, {tuple(range(10))})

  @parameterized.parameters('smoke', 'small')
  def test_arms_of_staleness_train_on_as_many_batches(self, size):
    for cell in staleness.cells(size):
      _, plain = played(cell)
      single = plain['sample']['group'] == 1
      fill, _ = staleness.settings(size, single)[cell.setting]
      self.assertEqual(plain['steps'] - fill, staleness.STEPS[size])
      self.assertEqual(plain['sample']['prompts'] * plain['sample']['group'], 64)

  def test_a_line_is_as_long_as_its_setting_says(self):
    for single, group in ((True, 1), (False, 8)):
      fill, fields = staleness.settings('small', single)['waiting']
      self.assertEqual(lines.batches(fields['sample.lag'], group, 1.0), fill)


class EffectsTest(absltest.TestCase):

  def results(self, size):
    """Scores that add up: mask 0.2, critic 0.1, twice -0.04, mask x critic 0.06."""
    made = []
    for on in sao_parts.combinations(size):
      score = 0.2 * ('mask' in on) + 0.1 * ('critic' in on) - 0.04 * ('twice' in on)
      score += 0.06 * ('mask' in on and 'critic' in on)
      row = dict.fromkeys(sao_parts._COSTS, 1.0)
      made += [row | dict(arm='+'.join(on) or 'without', seed=s, success_last=score + 0.01 * s)
               for s in (0, 1)]
    return made

  def test_effects_are_those_that_were_put_in(self):
    found = {}
    for row in sao_parts.rows(self.results('small'), []):
      found[row['setting'], row['arm'], row['seed']] = row['success_last']
    effect = lambda name: found[name, 'with', 1] - found[name, 'without', 1]
    self.assertLen(found, 2 * 2 * (7 + 17))
    for name, want in (('mask', 0.2 + 0.03), ('critic', 0.1 + 0.03 - 0.04), ('twice', -0.04),
                       ('single', 0.0), ('rule', 0.0), ('mask x critic', 0.03),
                       ('mask x single', 0.0), ('single x twice', 0.0), ('frozen x warm', 0.0)):
      self.assertAlmostEqual(effect(name), want, places=9, msg=name)
    self.assertAlmostEqual(found['mask', 'with', 1] - found['mask', 'with', 0], 0.01)

  def test_smoke_has_fewer_combinations(self):
    settings = {row['setting'] for row in sao_parts.rows(self.results('smoke'), [])
                if row['arm'] == 'with'}
    self.assertContainsSubset({'mask', 'critic', 'mask x critic', 'warm', 'rule'}, settings)


class RowsTest(absltest.TestCase):

  def test_phases_of_a_switch(self):
    self.assertEqual(reward_switch.phases('small'), {
        'before a switch': (14, 20), 'after switch 1': (22, 28), 'after switch 2': (42, 48)})
    curves = [dict(arm='group', seed=3, step=s, reward=float(s)) for s in range(0, 61, 2)]
    found = reward_switch.rows([dict(arm='group', seed=3, steps=60)], curves)
    self.assertEqual([r['reward'] for r in found], [17.0, 25.0, 45.0])

  def test_critics_are_read_from_the_runs_of_sao_stability(self):
    rows = sao_critic.rows('small', lambda done, total: None)
    runs = [cell for cell in sao_stability.cells('small') if cell.arm in sao_stability.CRITICS]
    self.assertLen(rows, sum(len(cell.seeds) for cell in runs))
    self.assertEqual({r['arm'] for r in rows}, set(sao_stability.CRITICS))


if __name__ == '__main__':
  absltest.main()
