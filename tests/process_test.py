"""Tests of pass@k and pass^k against counting."""

import itertools

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from grpo.study import process


def row(n, c):
  return [[True] * c + [False] * (n - c)]


class PassTest(parameterized.TestCase):

  @parameterized.parameters((1, 0.25), (2, 0.4643), (4, 0.7857), (8, 1.0))
  def test_known_values(self, k, expected):
    # n = 8, c = 2: 1 - C(6,k) / C(8,k)
    self.assertAlmostEqual(process.pass_at(row(8, 2), k), expected, places=4)

  def test_without_replacement(self):
    self.assertEqual(process.pass_at(row(4, 1), 4), 1.0)

  @parameterized.parameters(*itertools.product((1, 2, 3), (0, 2, 5)))
  def test_matches_counting(self, k, c):
    solved = np.array(row(5, c)[0])
    subsets = [solved[list(s)] for s in itertools.combinations(range(5), k)]
    self.assertAlmostEqual(process.pass_at([solved], k), np.mean([s.any() for s in subsets]))
    self.assertAlmostEqual(process.pass_hat([solved], k), np.mean([s.all() for s in subsets]))

  def test_too_few_repeats_are_refused(self):
    with self.assertRaisesRegex(ValueError, 'k=5'):
      process.pass_at(row(2, 0), 5)
    with self.assertRaisesRegex(ValueError, 'k=10'):
      process.pass_at(np.zeros([164, 1], bool), 10)


if __name__ == '__main__':
  absltest.main()
