"""Tests of study/tables.py and study/plots.py on rows made by hand."""

import csv

from absl.testing import absltest
from absl.testing import parameterized
import matplotlib.colors
import numpy as np

from grpo.study import plots
from grpo.study import tables
from tests import fake_runner


def row(arm, setting, seed, last, **changes):
  return dict(arm=arm, task='horizon', setting=setting, horizon=int(setting), seed=seed,
              success_last=last, success_auc=last, steps=20, rollouts=1280, tokens_sampled=10_240,
              tokens_trained=10_000, policy_flops=1e10, critic_flops=0.0) | changes


def make(arms, settings=('8',), seeds=8, spread=0.02):
  """Rows whose arms differ by a constant and a little noise of their own."""
  rows = []
  for k, setting in enumerate(settings):
    for seed in range(seeds):
      shared = np.random.default_rng([k, seed]).normal()
      for a, (arm, lift) in enumerate(arms.items()):
        own = np.random.default_rng([k, seed, a]).normal()
        rows.append(row(arm, setting, seed, 0.5 + lift + spread * shared + spread / 4 * own))
  return rows


class TablesTest(parameterized.TestCase):

  def test_verdicts(self):
    made = tables.blocks(make(dict(base=0.0, up=0.2, down=-0.2, same=0.0)), base='base')
    self.assertLen(made, 1)
    base, up, down, same = made[0].lines
    self.assertEqual(base.sentence, '')
    self.assertIsNone(base.improvement)
    self.assertRegex(up.sentence, r'^up is better than base on horizon / 8: \+0\.\d+ \[\+0\.')
    self.assertIn('8 paired seeds, p < 0.001 after Holm', up.sentence)
    self.assertEqual(up.improvement.point, 1.0)
    self.assertStartsWith(down.sentence, 'down is worse than base')
    self.assertStartsWith(same.sentence, 'same is not distinguishable from base')
    self.assertRegex(same.sentence, r'; a true 0\.0\d\d would show in 4 of 5 such experiments\.$')
    self.assertIn('1.5 seed spreads', made[0].visible)

  def test_other_words_for_other_scores(self):
    made = tables.blocks(make(dict(base=0.0, up=0.2, down=-0.2, same=0.0)), base='base',
                         words=('longer', 'shorter'))
    _, up, down, same = (line.sentence for line in made[0].lines)
    self.assertStartsWith(up, 'up is longer than base on ')
    self.assertStartsWith(down, 'down is shorter than base on ')
    self.assertStartsWith(same, 'same is not distinguishable from base on ')

  def test_correction_covers_all_settings(self):
    # 0.02 +- 0.02 over 8 pairs: p near 0.03 alone, so no claim may be made among many comparisons.
    few = [row('base', '8', s, 0.5) for s in range(8)]
    few += [row('arm', '8', s, 0.5 + 0.02 + 0.01 * (-1) ** s * (1 + s % 3)) for s in range(8)]
    alone = tables.blocks(few, base='base')[0].lines[1].sentence
    self.assertIn('better', alone)
    many = few + [row(a, k, s, 0.5 + 0.01 * ((s * 7 + i * 3 + int(k)) % 5))
                  for i, a in enumerate(('base', 'arm')) for k in ('16', '32', '64', '128')
                  for s in range(8)]
    self.assertIn('not distinguishable', tables.blocks(many, base='base')[0].lines[1].sentence)

  def test_all_settings_together(self):
    made = tables.blocks(make(dict(base=0.0, up=0.2), ('2', '8')), base='base')
    self.assertEqual([b.title for b in made], ['horizon / 2', 'horizon / 8', 'all settings'])
    self.assertIn('16 paired runs', made[-1].lines[1].sentence)
    part = [r for r in make(dict(base=0.0, up=0.2), ('2', '8'))
            if (r['arm'], r['setting']) != ('up', '8')]
    self.assertLen(tables.blocks(part, base='base'), 2)

  def test_pairs_are_those_of_shared_seeds(self):
    rows = [r for r in make(dict(base=0.0, up=0.2)) if (r['arm'], r['seed']) != ('up', 3)]
    rows = rows[::-1]  # the order of rows does not pair them
    self.assertIn('7 paired seeds', tables.blocks(rows, base='base')[0].lines[0].sentence)

  @parameterized.parameters(1, 2)
  def test_few_seeds(self, seeds):
    made = tables.blocks(make(dict(base=0.0, up=0.2), seeds=seeds), base='base')
    self.assertIn('up is not distinguishable', tables.text(made) if seeds == 1 else 'up is not '
                  'distinguishable')
    if seeds == 1:
      self.assertIn('one pair', made[0].lines[1].sentence)
      self.assertIn('no interval', tables.markdown(made))
      self.assertIn('no effect of any size', made[0].visible)

  def test_no_shared_seed_and_no_base(self):
    rows = [row('base', '8', 0, 0.5), row('base', '8', 1, 0.5), row('up', '8', 2, 0.9)]
    self.assertIn('share no finished seed', tables.blocks(rows, base='base')[0].lines[1].sentence)
    with self.assertRaisesRegex(ValueError, "no rows of the base arm 'bsae': did you mean 'base'"):
      tables.blocks(rows, base='bsae')
    with self.assertRaisesRegex(ValueError, "no rows of the base arm 'x': there are base, up"):
      tables.blocks(rows, base='x')

  @parameterized.parameters(float('nan'), float('inf'), 'high')
  def test_a_score_that_is_no_number_is_named(self, bad):
    rows = make(dict(base=0.0, up=0.2), ('2', '8'))
    wrong = [r | dict(success_last=bad) if (r['arm'], r['setting'], r['seed']) == ('up', '8', 5)
             else r for r in rows]
    message = f'arm up, task horizon, setting 8, seed 5: success_last is {bad!r}, not a number'
    with self.assertRaisesRegex(ValueError, message):
      tables.blocks(wrong, base='base')
    curves = [r | dict(step=s, success=bad if s == 10 else 0.5) for r in rows for s in (0, 10, 20)]
    with self.assertRaisesRegex(ValueError, 'arm base, .*, seed 0, step 10: success is '):
      tables.equal_flops(curves, rows)

  def test_missing_columns_and_runs_are_named(self):
    rows = make(dict(base=0.0, up=0.2), seeds=2)
    part = [{k: v for k, v in r.items() if k not in ('rollouts', 'seed')} for r in rows]
    with self.assertRaisesRegex(ValueError, 'results.csv has no column seed, rollouts; needs arm, '
                                'task, setting, seed, success_last, rollouts, .*critic_flops$'):
      tables.blocks(part, base='base')
    with self.assertRaisesRegex(ValueError, 'results.csv has no column succes_last; needs arm'):
      tables.blocks(rows, base='base', score='succes_last')
    curves = [r | dict(step=20, success=0.5) for r in rows if r['arm'] == 'base']
    with self.assertRaisesRegex(ValueError, 'curves.csv has no row of up, horizon, 8, 0, as'):
      tables.equal_flops(curves, rows)
    folder = fake_runner.folder(self)
    for name, text, message in (
        ('curves.csv', 'arm,task,seed,step\na,b,0,1\n', r'/curves.csv has no column setting, '
         'success; needs arm, task, setting, seed, step, success$'),
        ('results.csv', 'arm,seed\na,0\n', '/results.csv has no column task, setting, steps, ro'),
        ('results.csv', 'arm,seed\na,0\nb', '/results.csv: row 2 has more or fewer fields'),
        ('results.csv', 'arm,seed\na,0,3\n', '/results.csv: row 1 has more or fewer fields'),
        ('results.csv', b'arm,seed\n\xff,0\n', '/results.csv is not a CSV file: ')):
      (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
      with self.assertRaisesRegex(ValueError, message):
        tables.read(folder / name)

  def test_equal_scores(self):
    rows = [row(a, '8', s, 1.0) for a in ('base', 'up') for s in range(4)]
    made = tables.blocks(rows, base='base')
    self.assertIn('all 4 paired seeds score the same', tables.text(made))

  def test_equal_flops(self):
    # The critic doubles the cost: at the budget of the base arm, half of the steps are done.
    rows = [row('base', '8', 0, 0.8), row('ppo', '8', 0, 1.0, critic_flops=1e10)]
    curves = [dict(arm=a, task='horizon', setting='8', seed=0, step=s, success=y)
              for a, top in (('base', 0.8), ('ppo', 1.0)) for s, y in ((20, top), (0, 0.2))]
    equal = {r['arm']: r for r in tables.equal_flops(curves, rows)}
    self.assertAlmostEqual(equal['base']['success_flops'], 0.8)
    self.assertAlmostEqual(equal['ppo']['success_flops'], 0.6)
    self.assertEqual({r['policy_flops'] + r['critic_flops'] for r in equal.values()}, {1e10})
    self.assertEqual(equal['ppo']['rollouts'], rows[1]['rollouts'] / 2)
    free = [dict(r, policy_flops=0, critic_flops=0) for r in rows]  # tables cost nothing
    self.assertEqual([r['success_flops'] for r in tables.equal_flops(curves, free)], [0.8, 1.0])

  def test_text_and_markdown(self):
    made = tables.blocks(make(dict(base=0.0, up=0.2)), base='base')
    text, mark = tables.text(made), tables.markdown(made)
    for part in ('1.28k', '10.2k', '10G', 'up is better than base'):
      self.assertIn(part, text)
      self.assertIn(part, mark)
    self.assertLen([x for x in mark.splitlines() if x.startswith('|')], 4)

  def test_read(self):
    folder = fake_runner.folder(self)
    rows = make(dict(base=0.0, up=0.2), seeds=2)
    with open(folder / 'results.csv', 'w', newline='') as f:
      writer = csv.DictWriter(f, rows[0].keys())
      writer.writeheader()
      writer.writerows(rows)
    got = tables.read(folder / 'results.csv')
    self.assertEqual(got, rows)
    self.assertIsInstance(got[0]['setting'], str)
    with self.assertRaisesRegex(ValueError, 'no file .*run the sweep'):
      tables.read(folder / 'curves.csv')
    (folder / 'empty.csv').write_text('arm,seed\n')
    with self.assertRaisesRegex(ValueError, 'no cell has finished'):
      tables.read(folder / 'empty.csv')


class PlotsTest(absltest.TestCase):

  def test_arms_differ_in_grey_too(self):
    look = plots.looks([f'arm{i}' for i in range(8)])
    self.assertLen({s['marker'] for s in look.values()}, 8)
    self.assertLen({s['color'] for s in look.values()}, 8)
    for style in look.values():
      self.assertTrue(matplotlib.colors.is_color_like(style['color']))

  def test_curves_and_scores(self):
    look = plots.looks(['base', 'up', 'absent'])
    rows = make(dict(base=0.0, up=0.2), ('2', '8', '32'))
    curves = [dict(r, step=s, success=r['success_last'] * s / 20)
              for r in rows if r['setting'] == '8' for s in (20, 0, 10)]
    fig, axes = plots.new(1, 2)
    plots.learning_curves(axes[0, 0], curves, look)
    plots.score_against(axes[0, 1], rows, look)
    plots.legend(fig, axes[0, 0])
    line = axes[0, 0].lines[1]
    np.testing.assert_array_equal(line.get_xdata(), [0, 10, 20])
    self.assertAlmostEqual(line.get_ydata()[-1], 0.7, delta=0.03)
    self.assertEqual([t.get_text() for t in axes[0, 1].get_xticklabels()], ['2', '8', '32'])
    path = fake_runner.folder(self) / 'deep' / 'figure.png'
    plots.save(fig, path)
    first = path.read_bytes()
    plots.save(fig, path)
    self.assertEqual(first, path.read_bytes())
    self.assertEqual([p.name for p in path.parent.iterdir()], ['figure.png'])


if __name__ == '__main__':
  absltest.main()
