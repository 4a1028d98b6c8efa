"""What a limit of staleness does to lengths, and the weights that undo it, by simulation."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from configs import grpo
from grpo import build
from grpo import check
from grpo import types
from grpo.objective import filters
from grpo.objective import weigh
from grpo.rollout import delays
from grpo.rollout import staleness

LONGEST = 24  # tokens; lengths are uniform from 1 on, so their mean is 12.5


def rollout(version, length_PG):
  """Rollouts of which nothing but the length is told."""
  shape = (*length_PG.shape, 1, LONGEST)
  mask = jax.lax.broadcasted_iota(jnp.int32, shape, 3) < length_PG[..., None, None]
  zeros, ints = jnp.zeros(shape), jnp.zeros(shape, jnp.int32)
  flags, whole = jnp.zeros(length_PG.shape, bool), jnp.zeros(length_PG.shape, jnp.int32)
  return types.Rollout(
      tokens=ints, valid=mask, mask=mask, logp=zeros, rewards=zeros, turn=ints, state_id=ints,
      success=jnp.zeros(length_PG.shape), terminated=flags, truncated=flags,
      version=whole + version, prompt_id=whole, sample_id=whole)


def play(steps, prompts, group, lag, max_lag, sigma):
  """Mean length of what is trained on: without a limit, with it, and with weights; and the share
  of groups that the limit admits."""
  rng = np.random.default_rng(group)
  length_NPG = rng.integers(1, LONGEST + 1, size=(steps, prompts, group))
  normal_NPG = rng.normal(size=length_NPG.shape)
  shapes = jax.eval_shape(lambda: rollout(0, jnp.ones((prompts, group), jnp.int32)))
  start = staleness.line(shapes, lag, group, dict(name='by_length', sigma=sigma))

  def body(line, x):
    step, length_PG, normal_PG = x
    took_PG = delays.by_length(normal_PG, length_PG, sigma=sigma)
    line, out, ready = staleness.exchange(line, rollout(step, length_PG), step, took_PG)
    facts = filters.Facts(**vars(filters.seen(out, step)) | dict(pace=staleness.pace(line)))
    kept_PG = filters.fresh(facts, max_lag=max_lag)
    weight_PG = weigh.admission(facts, None, types.stream(out.mask), max_lag=max_lag, sigma=sigma,
                                most=50.0)[..., 0]
    return line, (facts.lengths_PG, kept_PG & ready, jnp.where(kept_PG, weight_PG, 0.0), ready)

  run = jax.jit(lambda line, *x: jax.lax.scan(body, line, (jnp.arange(steps), *x))[1])
  length, kept, weight, ready = (np.asarray(x, np.float64)[steps // 4:] for x in run(
      start, jnp.asarray(length_NPG), jnp.asarray(normal_NPG, jnp.float32)))
  assert ready.all()
  mean = lambda w: np.sum(length * w) / np.sum(w)
  return mean(np.ones_like(length)), mean(kept), mean(kept * weight), kept.mean()


class AdmissionTest(parameterized.TestCase):

  @parameterized.parameters((1, 32, 4, 4, 0.81), (4, 8, 2, 4, 0.94))
  def test_weights_undo_what_the_limit_does(self, group, prompts, lag, max_lag, limits):
    free, limited, weighed, share = play(1200, prompts, group, lag, max_lag, 0.7)
    truth = (1 + LONGEST) / 2
    self.assertAlmostEqual(free / truth, 1.0, delta=0.01)  # each is trained on once, so no bias
    self.assertAlmostEqual(limited / truth, limits, delta=0.01)
    self.assertAlmostEqual(share, 0.69, delta=0.02)
    self.assertAlmostEqual(weighed / truth, 1.0, delta=0.02)

  def test_one_batch_by_hand(self):
    # Limit 1, pace 5: ten units of time. sigma 1: pi(l) = Phi(log(10 / l) + 0.5), of both members.
    length_PG = np.array([[2, 4], [10, 10], [1, 20]])
    lag_P = np.array([0, 1, 2])  # the third group is too old: it does not count in the mean
    facts = filters.Facts(
        reward_PG=None, shaped_PG=None, success_PG=None, lengths_PG=jnp.asarray(length_PG),
        truncated_PG=None, version_PG=jnp.asarray(10 - lag_P)[:, None] * jnp.ones((1, 2), int),
        now=jnp.asarray(10), pace=jnp.asarray(5.0))
    mask = jnp.asarray(np.arange(20) < length_PG[..., None])
    got = weigh.admission(facts, None, mask, max_lag=1, sigma=1.0, most=2.0)
    pi = stats.norm.cdf(np.log(10 / length_PG) + 0.5).prod(axis=1)
    want = 1 / np.maximum(pi, 0.5)
    self.assertEqual(want[1], 2.0)  # cut: pi is 0.48
    np.testing.assert_allclose(got[:, :, 0], np.repeat(want[:, None] / want[:2].mean(), 2, 1),
                               rtol=1e-5)

  def test_it_needs_the_limit_and_the_law(self):
    c = grpo.get_config('smoke,horizon')
    c.sample.lag, c.sample.delay = 2, dict(name='by_length', sigma=0.5)
    c.method.filter.fresh = dict(name='fresh', max_lag=4)
    c.method.weigh.short = dict(name='admission', max_lag=4, sigma=0.5)
    check.check(build.plain(c))
    for path, value in (('sample.delay', dict(name='log_normal', sigma=0.5)),
                        ('method.weigh.short', dict(name='admission', max_lag=3, sigma=0.5)),
                        ('method.filter', {})):
      with self.assertRaisesRegex(ValueError, 'admission undoes what a filter fresh does'):
        check.check(build.plain(c, {path: value}))


if __name__ == '__main__':
  absltest.main()
