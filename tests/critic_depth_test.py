"""critic_depth: its README states what results.csv holds, and its arms are legal."""

import pathlib

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from experiments.critic_depth import plot
from experiments.critic_depth import run
from grpo import build
from grpo import check
from grpo.study import frames

ROWS = frames.read(plot.HERE / 'results.csv')


class CriticDepthTest(parameterized.TestCase):

  def test_readme_states_the_findings(self):
    text = ' '.join((plot.HERE / 'README.md').read_text().split())
    found = plot.findings(ROWS)
    stated = [key for key in found if key.startswith((
        'early', 'late', 'choice', 'warm-up, longest', 'best', 'dead less', 'dead: explained_value',
        'dead: error'))]
    stated += ['error, lag 2 less 0', 'error, lag 8 less 0', 'error, lag 8 less 0 a look before']
    stated += [f'{what}, lag {lag}' for what in ('error', 'success') for lag in (0, 2, 8)]
    self.assertGreater(len(stated), 30)
    for key in stated:
      self.assertIn(found[key], text, key)
    for turns in (4, 8, 12):
      seeds, number = found[f'warm-up, {turns} turns'].split(', ', 1)
      self.assertEqual(seeds, '8 of 8 seeds')
      self.assertIn(number, text)

  def test_results_are_those_of_all_arms(self):
    episodes = frames.where(ROWS, part='episode')
    self.assertEqual({r['size'] for r in ROWS}, {'small'})
    self.assertLen(episodes, 7 * 8 * 5)  # arms, seeds, looks
    self.assertLess(np.mean([r['behaviour'] for r in episodes]), 0.04)
    dead = frames.where(episodes, arm='dead')
    self.assertEqual({(r['spread'], r['dead']) for r in dead}, {(0, 1)})

  @parameterized.parameters('smoke', 'small', 'full')
  def test_arms_are_legal(self, size):
    for lag in run.SIZES[size].lags:
      plain = build.plain(run.config(size, lag))
      count = len(run.arms(size, lag))
      check.check(plain, {'task.horizon': [4.0] * count}, count)

  def test_figure(self):
    self.assertLen(plot.figure(pathlib.Path(plot.HERE)).axes, 6)


if __name__ == '__main__':
  absltest.main()
