"""Ratios, surrogates, KL terms, aggregates, filters and the value loss, one by one."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo.objective import aggregate
from grpo.objective import auxiliary
from grpo.objective import critic
from grpo.objective import filters
from grpo.objective import kl
from grpo.objective import ratios
from grpo.objective import surrogates
from tests import reference
from tests import rollouts

partial = functools.partial
bands = lambda *x: partial(surrogates.two_bands, **dict(zip(
    ('up_low', 'up_high', 'down_low', 'down_high'), x)))
SURROGATES = {
    'reinforce': surrogates.reinforce,
    'ppo_clip': partial(surrogates.ppo_clip, low=0.2, high=0.3),
    'dual': partial(surrogates.ppo_clip, low=0.2, high=0.3, dual=2.0),
    'dis': partial(surrogates.dis, low=0.3, high=1.0),
    'cispo': partial(surrogates.cispo, low=0.2, high=0.3),
    'two_bands': bands(0.4, 1.5, 0.8, 3.0),
    'two_bands_clip': bands(0.0, 1.3, 0.8, 1e9),
    'two_bands_dis': bands(0.7, 2.0, 0.7, 2.0),
    'two_bands_free': bands(0.0, 1e9, 0.0, 1e9),
}


@jax.jit
def slopes(log_ratio, advantages, mask):
  """Value and d loss / d logp of every surrogate, with the ratio of each token; and its gate."""
  out = {}
  for name, surrogate in SURROGATES.items():
    def loss(logp, surrogate=surrogate):
      x = surrogate(logp + log_ratio, logp, advantages, mask)
      return jnp.sum(x), x
    slope, value = jax.grad(loss, has_aux=True)(jnp.zeros_like(log_ratio))
    gate = surrogates.gate(surrogate, log_ratio, jnp.zeros_like(log_ratio), advantages, mask)
    out[name] = value, slope, gate
  return out


class SurrogatesTest(parameterized.TestCase):

  def test_slots_are_covered(self):
    self.assertSameElements(surrogates.__all__, {
        name for name in SURROGATES if name != 'dual' and not name.startswith('two_bands_')})

  def test_against_scalar_loops(self):
    ratio = np.array([0.05, 0.5, 0.75, 0.9, 1.1, 1.29, 1.4, 1.9, 2.5, 9.0])
    log_ratio = np.log(np.stack([ratio, ratio]))[None].astype('f')
    for sign in (1.0, -1.5):
      advantage = np.full_like(log_ratio, sign)
      got = slopes(log_ratio, advantage, np.ones(log_ratio.shape, bool))
      for name, dual in (('ppo_clip', None), ('dual', 2.0)):
        want = np.array([reference.ppo_clip(r, sign, 0.2, 0.3, dual) for r in ratio])
        np.testing.assert_allclose(got[name][0][0, 0], want[:, 0], 1e-5)
        np.testing.assert_allclose(got[name][1][0, 0], want[:, 1], 1e-5)
      for name, loop, low, high in (('dis', reference.dis, 0.3, 1.0),
                                    ('cispo', reference.cispo, 0.2, 0.3)):
        want = [loop(r, sign, low, high) for r in ratio]
        np.testing.assert_allclose(got[name][1][0, 0], want, 1e-5)
      np.testing.assert_allclose(got['reinforce'][1], -advantage)
      low, high = (0.4, 1.5) if sign > 0 else (0.8, 3.0)
      np.testing.assert_allclose(got['two_bands'][1][0, 0],
                                 -sign * ratio * ((ratio > low) & (ratio < high)), 1e-5)
      for name, other in (('clip', 'ppo_clip'), ('dis', 'dis')):
        np.testing.assert_allclose(got[f'two_bands_{name}'][1], got[other][1], 1e-5)
      np.testing.assert_allclose(got['two_bands_free'][1][0, 0], -sign * ratio, 1e-5)
      for name, (_, slope, gate) in got.items():
        np.testing.assert_allclose(-gate * sign, slope, 1e-5, err_msg=name)  # what stands before -A

  def test_first_step_is_the_same_for_all(self):
    advantage = np.array([[[1.0, -2.0, 0.5, 0.0]]], np.float32)
    got = slopes(np.zeros_like(advantage), advantage, np.ones(advantage.shape, bool))
    for name, (_, slope, _) in got.items():
      np.testing.assert_allclose(slope, -advantage, 1e-6, err_msg=name)

  def test_garbage_off_the_mask_and_huge_ratios(self):
    mask = np.array([[[True, False, False, True, True]]])
    log_ratio = np.array([[[0.1, np.nan, np.inf, 1e6, -1e6]]], np.float32)
    advantage = np.array([[[1.0, np.nan, 1.0, -1.0, 0.0]]], np.float32)
    for name, results in slopes(log_ratio, advantage, mask).items():
      for x in results:
        self.assertTrue(np.all(np.isfinite(x)), name)
        np.testing.assert_array_equal(np.asarray(x)[~mask], 0.0, name)
      self.assertEqual(results[1][0, 0, 4], 0.0)


class RatiosTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()

    @jax.jit
    def run(logp, old, mask, turn):
      out = {}
      for name in ratios.__all__:
        def weighted(logp, name=name):
          x = getattr(ratios, name)(logp, old, mask, turn)
          return jnp.sum(x * jnp.arange(1.0, 6.0)[None, None]), x
        grad, value = jax.grad(weighted, has_aux=True)(logp)
        out[name] = value[0, 0], grad[0, 0]
      return out

    mask = np.array([[[1, 1, 0, 1, 0]]], bool)
    logp = np.array([[[-1.0, -2.0, np.nan, -3.0, np.inf]]], np.float32)
    old = np.array([[[-1.3, -2.1, 7.0, -3.2, np.nan]]], np.float32)
    cls.got = run(logp, old, mask, np.array([[[0, 0, -1, 1, -1]]]))

  def test_values(self):
    # Differences 0.3, 0.1 in turn 0 and 0.2 in turn 1; their mean is 0.2.
    expected = dict(token=[0.3, 0.1, 0, 0.2, 0], sequence=[0.2, 0.2, 0, 0.2, 0],
                    product=[0.6, 0.6, 0, 0.6, 0],
                    gspo_token=[0.2, 0.2, 0, 0.2, 0], turn=[0.2, 0.2, 0, 0.2, 0], none=[0] * 5)
    self.assertSameElements(expected, ratios.__all__)
    for name, want in expected.items():
      np.testing.assert_allclose(self.got[name][0], want, 1e-5, 1e-6, err_msg=name)

  def test_gradients(self):
    # Weights 1, 2, 4 on the trained tokens: 7 in all, 3 in turn 0.
    expected = dict(token=[1, 2, 0, 4, 0], sequence=[7 / 3, 7 / 3, 0, 7 / 3, 0],
                    product=[7, 7, 0, 7, 0],
                    gspo_token=[1, 2, 0, 4, 0], turn=[1.5, 1.5, 0, 4, 0], none=[1, 2, 0, 4, 0])
    for name, want in expected.items():
      np.testing.assert_allclose(self.got[name][1], want, 1e-5, err_msg=name)


class KlTest(parameterized.TestCase):

  def test_direction_and_sign(self):
    now, reference_ = jnp.float32(-1.0), jnp.float32(-2.0)
    zero = jnp.float32(0.0)
    self.assertAlmostEqual(float(kl.k1(now, reference_, zero)), 1.0)
    self.assertAlmostEqual(float(kl.k2(now, reference_, zero)), 0.5)
    self.assertAlmostEqual(float(kl.k3(now, reference_, zero)), 0.367879, 5)
    self.assertAlmostEqual(float(kl.k3(reference_, now, zero)), 0.718282, 5)
    self.assertEqual(kl.none(now, None, zero), 0.0)

  def test_equal_policies_give_exactly_nothing(self):
    x = jnp.float32(-1.7)
    for penalty in (kl.k2, kl.k3, kl.importance_weighted_k3, kl.none):
      value, grad = jax.value_and_grad(lambda z, f=penalty: f(z, x, z - x))(x)
      self.assertEqual((float(value), float(grad)), (0.0, 0.0))

  def test_k3_is_never_negative_and_finite(self):
    x = np.concatenate([np.linspace(-30, 30, 61), [1e-4, -1e-4, 1e5, -1e5]]).astype('f')
    got = kl.k3(x, np.zeros_like(x), np.zeros_like(x))
    self.assertTrue(np.all(np.isfinite(got)) and np.all(np.asarray(got) >= 0))


class AggregateTest(parameterized.TestCase):

  def test_parity(self):
    rng = np.random.default_rng(0)
    constant = partial(aggregate.constant_length, length=9)
    slots = dict(token=aggregate.token, sequence=aggregate.sequence,
                 sequence_sum=aggregate.sequence_sum, token_sum=aggregate.token_sum,
                 constant_length=constant, window=partial(aggregate.window, window=3))
    self.assertSameElements(slots, aggregate.__all__)
    run = jax.jit(lambda mask: {k: f(mask) for k, f in slots.items()})
    for share in (0.0, 0.1, 0.5, 1.0):
      mask = rng.random((2, 3, 6)) < share
      mask[0, 1] = False
      for name, got in run(mask).items():
        width = 3 if name == 'window' else 6  # two windows a row, each a sequence
        want = reference.weights('sequence' if name == 'window' else name,
                                 mask.reshape(-1, width), length=9)
        np.testing.assert_allclose(np.reshape(got, (-1, width)), want, 1e-6, err_msg=name)

  def test_constant_length_can_count_all_rows(self):
    mask = np.array([[[1, 1], [0, 0]]], bool)
    got = aggregate.constant_length(mask, length=2, rows='all')
    np.testing.assert_allclose(got, [[[0.25, 0.25], [0, 0]]])
    with self.assertRaisesRegex(ValueError, 'allowed: trained, all'):
      aggregate.constant_length(mask, length=2, rows='kept')

  def test_first_loss(self):
    # Advantages 1 and -1, lengths 2 and 6, ratio 1: zero loss is no sign of a zero gradient.
    mask = np.arange(6) < np.array([[2], [6]])
    x = -np.broadcast_to(np.array([[1.0], [-1.0]], 'f'), (2, 6))[None]
    self.assertAlmostEqual(float(aggregate.apply(aggregate.sequence(mask[None]), x)), 0.0)
    self.assertAlmostEqual(float(aggregate.apply(aggregate.token(mask[None]), x)), 0.5)

  def test_positive_nll(self):
    mask = np.array([[[1, 1, 0], [1, 1, 1]], [[1, 0, 0], [0, 0, 0]]], bool)
    got = auxiliary.positive_nll(np.array([[1.0, 0.0], [1.0, 1.0]]), mask, coef=0.3)
    np.testing.assert_allclose(got, 0.1 * mask * np.array([[[1], [0]], [[1], [1]]]), 1e-6)
    self.assertEqual(jnp.sum(auxiliary.positive_nll(np.zeros((2, 2)), mask, coef=0.3)), 0.0)


class FiltersTest(parameterized.TestCase):

  def facts(self, **changes):
    zero = jnp.zeros((2, 2))
    base = dict(reward_PG=zero, shaped_PG=zero, success_PG=zero,
                lengths_PG=jnp.full((2, 2), 3), truncated_PG=zero > 0,
                version_PG=jnp.zeros((2, 2), jnp.int32), now=jnp.asarray(5))
    return filters.Facts(**(base | changes))

  def test_each(self):
    facts = self.facts(reward_PG=jnp.array([[0.1, 0.1], [0.0, 1.0]]),
                       shaped_PG=jnp.array([[0.1, 0.4], [0.0, 1.0]]),
                       truncated_PG=jnp.array([[True, False], [False, False]]),
                       version_PG=jnp.array([[5, 3], [4, 2]]))
    np.testing.assert_array_equal(filters.everything(facts), [[1, 1], [1, 1]])
    np.testing.assert_array_equal(filters.informative(facts), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(filters.informative(facts, by='shaped'), [[1, 1], [1, 1]])
    np.testing.assert_array_equal(filters.informative(facts, by='success'), [[0, 0], [0, 0]])
    np.testing.assert_array_equal(filters.complete(facts), [[0, 1], [1, 1]])
    np.testing.assert_array_equal(filters.fresh(facts, max_lag=2), [[1, 1], [1, 0]])
    with self.assertRaisesRegex(ValueError, 'allowed: reward, success, shaped'):
      filters.informative(facts, by='length')

  def test_share_of_flat_groups(self):
    """p^G + (1 - p)^G of groups with 0/1 rewards are flat."""
    rng, prompts, p = np.random.default_rng(0), 1000, 0.1819
    for samples, share in ((2, 0.7024), (4, 0.4490), (8, 0.2007)):
      reward = jnp.asarray((rng.random((prompts, samples)) < p) * 1.0, jnp.float32)
      zero = jnp.zeros(reward.shape)
      facts = self.facts(reward_PG=reward, lengths_PG=jnp.ones(reward.shape, jnp.int32),
                         shaped_PG=zero, success_PG=zero)
      flat = 1.0 - float(jnp.mean(filters.informative(facts)))
      self.assertLess(abs(flat - share), 3 * np.sqrt(share * (1 - share) / prompts))


class CriticTest(parameterized.TestCase):

  def test_value_loss(self):
    rng = np.random.default_rng(0)
    value, old, target = rng.normal(size=(3, 1, 1, 20)).astype('f')
    mask = np.arange(20)[None, None] < 15
    dirty = lambda x: np.where(mask, x, np.nan)
    run = jax.jit(jax.value_and_grad(lambda *x, clip: jnp.sum(
        critic.value_loss(*x, mask, clip=clip))))
    got, grad = run(dirty(value), dirty(old), dirty(target), clip=0.2)
    rows = [x[0, 0, :15] for x in (value, old, target)]
    want = sum(reference.value_loss(*x, 0.2) for x in zip(*rows, strict=True))
    self.assertAlmostEqual(float(got), want, 4)
    self.assertTrue(np.all(np.isfinite(grad)))
    got, grad = run(value, old, target, clip=0.0)
    np.testing.assert_allclose(grad, np.where(mask, value - target, 0.0), 1e-6)
    self.assertAlmostEqual(float(got), 0.5 * np.sum((rows[0] - rows[2])**2), 4)

  def test_spec(self):
    with self.assertRaisesRegex(ValueError, 'policy, fresh'):
      rollouts.critic_spec(start='random')


if __name__ == '__main__':
  absltest.main()
