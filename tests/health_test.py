"""Health of a critic on values that are known."""

import math

from absl.testing import absltest
import numpy as np

from grpo.study import health


def episodes(seed=0):
  """Values before three turns [B,N,H] and outcomes that they predict."""
  rng = np.random.default_rng(seed)
  value = rng.random((20, 64, 3))
  outcome = (rng.random(value.shape) < value).astype(float)
  return value, outcome, np.ones(value.shape, bool)


class HealthTest(absltest.TestCase):

  def test_exact_values(self):
    value, outcome, on = episodes()
    found = health.measure(value, value, outcome, on)
    self.assertEqual((found['explained_value'], found['error'], found['bias']), (1, 0, 0))
    self.assertEqual((found['rank'], found['dead']), (1, 0))
    self.assertAlmostEqual(found['explained_return'], found['ceiling'])
    # V uniform: var V = 1/12, var R = 1/4, so a third can be explained.
    self.assertAlmostEqual(found['ceiling'], 1 / 3, delta=0.03)

  def test_noise_shift_and_scale(self):
    value, outcome, on = episodes()
    noisy = value + 0.1 * np.random.default_rng(1).standard_normal(value.shape)
    found = health.measure(value, noisy, outcome, on)
    self.assertAlmostEqual(found['explained_value'], 1 - 0.01 * 12, delta=0.02)
    self.assertAlmostEqual(found['error'], 0.1, delta=0.01)
    shifted = health.measure(value, 0.5 * value + 1.0, outcome, on)
    self.assertLess(shifted['explained_value'], 0)
    self.assertEqual((shifted['rank'], shifted['dead']), (1, 0))
    self.assertAlmostEqual(shifted['spread'], 0.5)

  def test_dead_critics(self):
    value, outcome, on = episodes()
    flat = health.measure(value, np.full_like(value, 0.5), outcome, on)
    self.assertEqual((flat['dead'], flat['rank'], flat['spread']), (1, 0, 0))
    noise = np.random.default_rng(2).random(value.shape)
    self.assertEqual(health.measure(value, noise, outcome, on)['dead'], 1)

  def test_nothing_to_explain_is_no_fault(self):
    value, outcome, on = episodes()
    found = health.measure(np.full_like(value, 0.25), value, outcome, on)
    for name in ('explained_value', 'rank', 'dead'):
      self.assertTrue(math.isnan(found[name]), name)


if __name__ == '__main__':
  absltest.main()
