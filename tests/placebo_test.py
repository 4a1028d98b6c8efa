"""The placebo reward: a coin that knows nothing of what was earned."""

from absl.testing import absltest
import jax
import jax.numpy as jnp
import numpy as np

from grpo import build
from grpo.objective import rewards
from scripts import cells


def draw(seed, shape=(64, 32, 7)):
  rng = np.random.default_rng(seed)
  mask = rng.random(shape) < 0.7
  earned = (rng.random(shape[:2]) < 0.5)[..., None] * (np.arange(shape[2]) == 3) * mask
  return jnp.asarray(earned, jnp.float32), jnp.asarray(-rng.random(shape), jnp.float32), mask


class PlaceboTest(absltest.TestCase):

  def test_coin_is_fair_and_independent_of_the_reward(self):
    earned, logp, mask = draw(0)
    for share in (0.2, 0.5):
      coin = np.asarray(rewards.placebo(earned, logp, None, mask, share=share))
      self.assertEqual(set(np.unique(coin)), {0.0, 1.0})
      total, truth = coin.sum(axis=2).ravel(), np.asarray(earned).sum(axis=2).ravel()
      n = len(total)
      self.assertAlmostEqual(total.mean(), share, delta=4 * np.sqrt(share * (1 - share) / n))
      self.assertLess(abs(np.corrcoef(total, truth)[0, 1]), 4 / np.sqrt(n))
      self.assertLess(abs(np.corrcoef(total, np.asarray(logp * mask).sum(axis=2).ravel())[0, 1]),
                      4 / np.sqrt(n))

  def test_it_lies_on_the_last_trained_token(self):
    earned, logp, mask = draw(1, (8, 8, 7))
    coin = np.asarray(rewards.placebo(earned, logp, None, mask))
    last = mask & (np.cumsum(mask[..., ::-1], axis=2)[..., ::-1] == 1)
    self.assertFalse(coin[~last].any())
    empty = np.zeros_like(mask)
    self.assertFalse(np.asarray(rewards.placebo(earned, logp, None, empty)).any())

  def test_same_numbers_same_coin_and_a_new_one_once_the_policy_has_moved(self):
    earned, logp, mask = draw(2)
    coin = lambda logp: np.asarray(jax.jit(rewards.placebo)(earned, logp, None, mask)).sum(axis=2)
    np.testing.assert_array_equal(coin(logp), coin(jnp.where(mask, logp, -7.0)))
    changed = np.mean(coin(logp) != coin(logp * 1.0001))
    self.assertAlmostEqual(changed, 0.5, delta=0.05)

  def test_a_sweep_can_ask_for_it(self):
    cell = cells.Cell('x', 'placebo', 'horizon', '8 turns', 'configs/grpo.py:smoke',
                      {'method.shape': dict(placebo=dict(name='placebo', share=0.5))}, (0,))
    parts = build.parts(build.plain(cells.resolve(cell)))
    self.assertIs(parts.method.shape[0].func, rewards.placebo)
    self.assertEqual(parts.method.shape[0].keywords, dict(share=0.5))


if __name__ == '__main__':
  absltest.main()
