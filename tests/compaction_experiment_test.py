"""compaction: its README states what results.csv holds, for ten paired seeds of eight arms."""

import collections

from absl.testing import absltest
import numpy as np

from experiments.compaction import pairs
from experiments.compaction import sweep
from grpo.study import tables
from scripts import cli

RESULTS = tables.read(pairs.HERE / 'results.csv')


class CompactionExperimentTest(absltest.TestCase):

  def test_readme_states_the_results(self):
    text = (pairs.HERE / 'README.md').read_text(encoding='utf-8')
    made = '\n'.join(pairs.lines(RESULTS))
    self.assertIn(made, text)
    page = (cli.ROOT / 'docs' / 'compaction.md').read_text(encoding='utf-8')
    self.assertIn(made.split('\n\n')[0], page)

  def test_results_are_those_of_all_arms_and_seeds(self):
    seeds = collections.defaultdict(list)
    for row in RESULTS:
      seeds[row['arm']].append(row['seed'])
    self.assertEqual(dict(seeds), {arm: list(range(10, 20)) for arm in sweep.ARMS})
    self.assertLen({row['rollouts'] for row in RESULTS}, 1)
    self.assertEqual({row['bad_step'] for row in RESULTS}, {-1})

  def test_arms_start_from_one_clone(self):
    start = {arm: [r['clone_pass_rate'] for r in RESULTS if r['arm'] == arm] for arm in sweep.ARMS}
    shared = [x for arm, x in start.items() if arm != 'keep_last']
    self.assertTrue(all(x == shared[0] for x in shared))
    self.assertGreaterEqual(min(map(min, start.values())), 0.35)

  def test_untrained_summaries_are_sampled(self):
    for row in RESULTS:
      self.assertEqual(row['tokens_trained'] < row['tokens_sampled'], row['arm'] == 'untrained')

  def test_pairs_by_hand(self):
    rows = [dict(arm=arm, seed=seed, clone_pass_rate=0.4, success_last=score,
                 **{'test/whole': 0.5}) for arm in sweep.ARMS
            for seed, score in ((1, 0.75), (0, 0.5 if arm == 'untrained' else 0.25))]
    found = pairs.scores(rows)
    np.testing.assert_array_equal(found['with compaction', 'rollouts'], [0.25, 0.75])
    first = pairs.compare(rows)[0]
    self.assertEqual((first['arm'], first['against']), ('untrained', 'rollouts'))
    self.assertAlmostEqual(first['comparison'].difference.point, 0.125)


if __name__ == '__main__':
  absltest.main()
