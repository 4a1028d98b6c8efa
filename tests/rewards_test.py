"""Shaping of rewards, one function by one; the placebo is in placebo_test.py."""

from absl.testing import absltest
from absl.testing import parameterized
import jax.numpy as jnp
import numpy as np

from grpo.objective import rewards
from tests import draws
from tests import reference


class RewardsTest(parameterized.TestCase):

  def test_kl_of_written_tokens_only(self):
    # Two tokens of the policy, three of a tool, one of the policy; KL 0.1 and 5.0 a token.
    mask = np.array([[[1, 1, 0, 0, 0, 1]]], bool)
    logp = np.where(mask, 0.1, 5.0).astype('f')
    got = rewards.kl_in_reward(jnp.zeros_like(logp).at[..., 5].set(1.0), logp,
                               np.zeros_like(logp), mask, coef=1.0)
    np.testing.assert_allclose(got[0, 0], [-0.1, -0.1, 0, 0, 0, 0.9], 1e-6)
    self.assertAlmostEqual(float(jnp.sum(got)), 0.7, 6)

  @parameterized.parameters(('k1', 1.0), ('k2', 0.5), ('k3', 0.367879))
  def test_kl_kinds(self, kind, value):
    one = np.ones((1, 1, 1), 'f')
    got = rewards.kl_in_reward(0 * one, -one, -2 * one, one > 0, coef=2.0, kind=kind)
    self.assertAlmostEqual(float(got[0, 0, 0]), -2.0 * value, 5)

  def test_overlong_goes_to_the_last_trained_token(self):
    mask = np.array([[[1, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]], bool)
    zero = np.zeros(mask.shape, 'f')
    got = rewards.overlong(zero, zero, None, mask, max_length=4, cache=2)
    # Length 3 is half way from 2 to 4.
    np.testing.assert_allclose(got[0], [[0, 0, 0, -0.5, 0], [0] * 5, [0] * 5])

  def test_at_end_by_hand(self):
    # 1 + 3 = 4 is earned on trained tokens; half of it waits for the last of them.
    mask = np.array([[[1, 0, 1, 1, 0], [0, 0, 0, 0, 0]]], bool)
    x = np.array([[[1.0, 9.0, 3.0, 0.0, np.nan], [5.0, 5.0, 5.0, 5.0, 5.0]]], 'f')
    for share, want in ((1.0, [0, 0, 0, 4, 0]), (0.5, [0.5, 0, 1.5, 2, 0]), (0.0, [1, 0, 3, 0, 0])):
      got = rewards.at_end(x, x, None, mask, share=share)
      np.testing.assert_array_equal(got, [[want, [0] * 5]])

  @draws.times(30)
  def test_at_end_against_a_loop(self, shape, share, seed):
    rng = np.random.default_rng(seed)
    x, mask = rng.normal(size=shape).astype('f'), rng.random(shape) >= share
    part = float(rng.random())
    got = np.asarray(rewards.at_end(x, x, None, mask, share=part))
    for place in np.ndindex(shape[:2]):
      want = reference.at_end(x[place].astype(float), mask[place], part)
      np.testing.assert_allclose(got[place], want, rtol=1e-5, atol=1e-6)
    # What lies off the mask, and padding, changes nothing; nor does the order of samples.
    noisy = np.where(mask, x, np.nan)
    wide = lambda y, fill: np.concatenate([y, np.full((*shape[:2], 2), fill, y.dtype)], axis=2)
    again = rewards.at_end(wide(noisy, np.inf), wide(x, 0), None, wide(mask, False), share=part)
    np.testing.assert_array_equal(np.asarray(again)[..., :shape[2]], got)
    np.testing.assert_array_equal(np.asarray(again)[..., shape[2]:], 0.0)
    turned = rewards.at_end(x[:, ::-1], x, None, mask[:, ::-1], share=part)
    np.testing.assert_array_equal(turned, got[:, ::-1])

  def test_scale_and_clip(self):
    x = np.array([[[3.0, -3.0, 9.0]]], 'f')
    mask = np.array([[[1, 1, 0]]], bool)
    np.testing.assert_allclose(rewards.scale(x, x, None, mask, factor=2.0), 2 * x)
    got = rewards.clip(x, x, None, mask, low=-1.0, high=2.0)
    np.testing.assert_allclose(got, [[[2.0, -1.0, 9.0]]])

  def test_errors(self):
    x = np.zeros((1, 1, 1), 'f')
    with self.assertRaisesRegex(ValueError, 'reference'):
      rewards.kl_in_reward(x, x, None, x > 0, coef=1.0)
    with self.assertRaisesRegex(ValueError, 'allowed'):
      rewards.kl_in_reward(x, x, x, x > 0, coef=1.0, kind='k4')


if __name__ == '__main__':
  absltest.main()
