"""What a limit of staleness does to lengths, and the weights that undo it.

By simulation of the line, by enumeration, and in runs.
"""

from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize
from scipy import stats

from configs import grpo
from grpo import build
from grpo import check
from grpo import types
from grpo.learn import loop
from grpo.objective import filters
from grpo.objective import weigh
from grpo.rollout import delays
from grpo.rollout import staleness
from grpo.tasks import triage
from tests import toy

LONG = 8       # turns of the longer of two episodes
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


class TrainingTest(absltest.TestCase):

  def test_the_gradient_by_enumeration(self):
    """Two lengths, of probabilities 1/3 and 2/3, with a limit that halves the share of the long.

    Rewards are equal, so the gradient in the logit of `short` is 0. Of what is admitted half is
    short, which alone makes it 1/2 - 1/3. The weights give back 0, and any other mean.
    """
    share, length, lag, sigma = np.array([1 / 3, 2 / 3]), np.array([1.0, 8.0]), 3, 0.7
    pi = lambda tau: stats.norm.cdf((np.log((lag + 1) * tau / length) + sigma**2 / 2) / sigma)
    tau = optimize.brentq(lambda tau: pi(tau)[1] / pi(tau)[0] - 0.5, 0.1, 100.0)
    admitted = share * pi(tau) / np.sum(share * pi(tau))
    np.testing.assert_allclose(admitted, [0.5, 0.5], rtol=1e-9)
    rows = np.repeat(length, 8)  # as they are admitted in the mean
    facts = filters.Facts(
        reward_PG=None, shaped_PG=None, success_PG=None, truncated_PG=None,
        lengths_PG=jnp.asarray(rows[:, None], jnp.int32), version_PG=jnp.zeros((16, 1), int),
        now=jnp.asarray(1), pace=jnp.asarray(tau))
    mask = jnp.asarray(np.arange(8) < rows[:, None])[:, None]
    weight = np.asarray(weigh.admission(facts, None, mask, max_lag=lag, sigma=sigma, most=50.0),
                        np.float64)[:, 0, 0]
    short = rows == 1
    self.assertAlmostEqual(np.mean(short - share[0]), 1 / 2 - 1 / 3)
    self.assertAlmostEqual(np.mean(weight * (short - share[0])), 0.0, places=6)
    np.testing.assert_allclose(np.mean(weight * rows), share @ length, rtol=1e-5)

  def test_a_run_learns_to_be_short_from_the_limit_alone(self):
    """All episodes earn 1, so nothing is to be learned. A limit of staleness teaches to stop."""
    c = grpo.get_config('smoke,triage')
    c.model, c.clone.steps = dict(name='tabular'), 0
    c.task.horizon = c.window.turns = LONG
    c.steps, c.log_every, c.checkpoint.every = 80, 80, 80
    c.train.learning_rate, c.train.minibatches, c.evaluate.prompts = 0.02, 1, 1024
    c.sample.prompts, c.sample.group, c.sample.lag = 64, 1, 3
    c.sample.delay = dict(name='by_length', sigma=0.5)
    c.method.advantages, c.method.surrogate = dict(name='raw'), dict(name='importance')
    c.method.aggregate = dict(name='sequence_sum')  # a mean over tokens would prefer short ones
    c.method.filter.fresh = dict(name='fresh', max_lag=3)
    c.method.weigh.short = dict(name='admission', max_lag=3, sigma=0.5, most=50.0)
    knobs, seeds = triage.make(max_turns=LONG).knobs, 4
    # Free, limited, and limited with weights: a weight of 1 at most is none. One program.
    limits, most = np.repeat([1000, 3, 3], seeds), np.repeat([1.0, 1.0, 50.0], seeds)
    with mock.patch.object(triage, 'make', lambda max_turns: toy.two_lengths(knobs, long=LONG)):
      out = loop.run(c, seeds=[*range(seeds)] * 3, settings={
          'method.filter.fresh.max_lag': limits.tolist(),
          'method.weigh.short.max_lag': limits.tolist(),
          'method.weigh.short.most': most.tolist()})
    before, (free, limited, weighed) = out['success'].reshape(2, 3, seeds).mean(axis=2)
    np.testing.assert_allclose(before, 1 / 3, atol=0.03)  # the share of short ones
    self.assertGreater(limited, 0.8)
    # Without a limit short ones come first while the line fills, and never again.
    self.assertBetween(free, 0.25, 0.5)
    self.assertBetween(weighed, 0.2, 0.45)


if __name__ == '__main__':
  absltest.main()
