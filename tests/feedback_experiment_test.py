"""feedback: its README states what its files hold, and credit is what its slots give."""

import collections

from absl.testing import absltest
import numpy as np

from experiments.feedback import effects
from experiments.feedback import leak
from experiments.feedback import sweep
from grpo.study import frames
from grpo.study import tables

RESULTS, CURVES = (tables.read(effects.HERE / name) for name in ('results.csv', 'curves.csv'))


class FeedbackExperimentTest(absltest.TestCase):

  def test_readme_states_the_results(self):
    text = (effects.HERE / 'README.md').read_text(encoding='utf-8')
    self.assertIn('\n'.join(effects.means(RESULTS, CURVES)), text)
    self.assertIn('\n'.join(effects.lines(RESULTS, CURVES)), text)

  def test_results_are_those_of_all_arms_and_seeds(self):
    seeds, start = collections.defaultdict(list), collections.defaultdict(set)
    for row in RESULTS:
      seeds[row['setting'], row['arm']].append(row['seed'])
      start[row['horizon'], row['seed']].add(row['clone_pass_rate'])
    self.assertLen(seeds, len(sweep.ORDERS) * len(sweep.DELAYS) * len(sweep.ARMS))
    self.assertEqual({tuple(x) for x in seeds.values()}, {tuple(range(10, 22))})
    self.assertEqual({row['rollouts'] for row in RESULTS}, {1920})
    self.assertEqual({row['bad_step'] for row in RESULTS}, {-1})
    self.assertEqual({len(x) for x in start.values()}, {1})  # arms and delays share their clones

  def test_the_delay_is_nothing_to_whole_and_makes_to_go_the_same(self):
    found = effects.scores(RESULTS, CURVES)
    for order in sweep.ORDERS:
      base = found[f'order {order}, at once', 'whole']
      for arm in ('whole', 'to_go'):
        np.testing.assert_array_equal(found[f'order {order}, at the end', arm], base)

  def test_seeds_that_end_wrong_are_those_of_the_readme(self):
    wrong = lambda arm: sum(r['test/right'] < 0.2 for r in RESULTS
                            if (r['arm'], r['setting']) == (arm, 'order 3, at once'))
    self.assertEqual((wrong('own'), wrong('whole')), (3, 1))

  def test_gain_by_hand(self):
    # From 0.6, steps 20 and 40 are half way and all the way; step 60 is past twice 20.
    self.assertAlmostEqual(sweep.gains({0: 0.6, 20: 0.8, 40: 1.0, 60: 0.0}, 1), 0.75)
    self.assertAlmostEqual(sweep.gains({0: 0.5, 50: 0.25}, 3), -0.5)

  def test_effects_by_hand(self):
    found = {(f'order {order}, {delay}', arm): np.array([0.5, 0.5])
             for order in sweep.ORDERS for delay in sweep.DELAYS for arm in sweep.ARMS}
    found['order 1, at once', 'own'] = np.array([0.75, 1.0])
    found['order 3, at once', 'own'] = np.array([0.5, 0.25])
    made = effects.differences(found)
    np.testing.assert_array_equal(made['order 1, at once', 'own'], [0.25, 0.5])
    np.testing.assert_array_equal(made['order', 'own'], [0.25, 0.75])
    np.testing.assert_array_equal(made['delay, order 3', 'own'], [0.0, -0.25])

  def test_leakage_is_that_of_the_file_and_exact_where_it_is_known(self):
    known = {(r['order'], r['delay'], r['arm']): r for r in frames.read(leak.HERE / 'leakage.csv')}
    made = {(r['order'], r['delay'], r['arm']): r for r in leak.rows(512)}
    self.assertEqual(set(made), set(known))
    for key, row in made.items():
      self.assertAlmostEqual(row['leakage'], known[key]['leakage'], delta=0.02, msg=str(key))
    for order in sweep.ORDERS:
      for delay, own in (('at once', 0.0), ('at the end', 1.0)):
        self.assertEqual(made[order, delay, 'whole']['leakage'], 0.75)  # 9 of 12 turns
        self.assertEqual(made[order, delay, 'own']['leakage'], own)


if __name__ == '__main__':
  absltest.main()
