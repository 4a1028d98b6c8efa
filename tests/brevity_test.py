"""brevity: its cells, its lines, and the score that its table is made of."""

import math
import pathlib
import re

from absl.testing import absltest
from absl.testing import parameterized

from experiments.brevity import plot
from experiments.brevity import sweep
from grpo import build
from grpo import check
from grpo.rollout import staleness
from scripts import cells
from scripts import launch


class CellsTest(parameterized.TestCase):

  @parameterized.parameters('smoke', 'small', 'full')
  def test_arms_are_legal_and_train_on_as_many_batches(self, size):
    plan = launch.make_plan(sweep.cells(size))
    self.assertLen(plan, len(sweep.cells(size)))
    for cell in plan.values():
      plain = build.plain(cells.resolve(cell))
      check.check(plain, {k: [v] * len(cell.seeds) for k, v in cell.scalars.items()},
                  len(cell.seeds))
      if size != 'full':
        build.parts(plain, cell.scalars)
      sample = plain['sample']
      self.assertEqual(sample['prompts'] * sample['group'], 256 if size == 'full' else 64)
      filled = sweep.EVERY[size] * math.ceil(cell.horizon / sweep.EVERY[size])
      self.assertEqual(plain['steps'] - filled, sweep.STEPS[size])
      if size == 'small':  # the pilots had seeds 100 and 101
        self.assertEqual(filled, cell.horizon)
        self.assertEqual(cell.seeds, tuple(range(12)))

  @parameterized.parameters((1, 4), (8, 8))
  def test_a_limit_is_the_age_of_its_line(self, group, age):
    fill, fields = sweep.asynchrony(sweep.LIMIT, group)
    line = staleness.batches(fields['sample.lag'], group, fields['sample.delay']['sigma'])
    self.assertEqual((fill, line), (age, age))
    self.assertEqual(fields['method.filter']['fresh']['max_lag'], age)

  def test_groups_differ_from_grpo_with_the_mask_in_what_they_say(self):
    made = {c.arm: c for c in sweep.cells('small') if c.setting == 'sums, in step, rate 0.0003'}
    fields = lambda arm: dict(made[arm].overrides) | made[arm].scalars
    for arm, differs in {'group clip': {f'method.surrogate.{x}' for x in (
        'up_low', 'up_high', 'down_low', 'down_high')}, 'group kl': {'method.kl', 'method.kl_coef'},
                         'group constant': {'method.aggregate'}}.items():
      one, other = fields(arm), fields('group')
      self.assertEqual({k for k in {*one, *other} if one.get(k) != other.get(k)}, differs, arm)


class RowsTest(absltest.TestCase):

  def test_the_score_is_the_length_at_the_end_over_the_first(self):
    label = dict(arm='group', setting='any', seed=3)
    curves = [label | {'step': s, 'length/tokens': x} for s, x in ((0, ''), (4, 5.0), (8, 9.0))]
    curves += [label | {'arm': 'critic', 'step': 4, 'length/tokens': 1.0}]
    result = label | {'length/tokens_last': 4.0, 'test/train': 0.75, 'success_last': 0.5}
    row, = sweep.rows([result], curves)
    self.assertEqual((row[sweep.SCORE], row['gap']), (0.8, 0.25))

  def test_intervals_of_the_readme_are_those_of_the_results(self):
    folder = pathlib.Path(plot.HERE)
    text = re.sub(r'\s+', ' ', (folder / 'README.md').read_text(encoding='utf-8'))
    stated = set(re.findall(r'[+-]?\d\.\d{3} \[[^]]*\]', text))
    found = '\n'.join([*plot.findings(plot.read(folder)).values(),
                       (folder / 'table.md').read_text(encoding='utf-8')])
    known = set(re.findall(r'[+-]?\d\.\d{3} \[[^]]*\]', found))
    self.assertGreater(len(stated), 45)
    self.assertEqual(stated - known, set())


if __name__ == '__main__':
  absltest.main()
