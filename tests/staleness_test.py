"""The delay line against a slow simulation, and what is known of staleness."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from configs import grpo
from configs import sao
from grpo import types
from grpo.learn import loop
from grpo.learn import sinks
from grpo.rollout import delays
from grpo.rollout import staleness
from tests import fake_runner


def rollout(version, prompts, group):
  """Groups that can be told apart by their log-probs."""
  shape = (prompts, group, 1, 2)
  name = version * prompts + jnp.arange(prompts, dtype=jnp.float32)[:, None, None, None]
  ints = jnp.zeros((prompts, group), jnp.int32)
  flags = jnp.zeros((prompts, group), bool)
  return types.Rollout(
      tokens=jnp.ones(shape, jnp.int32), valid=jnp.ones(shape, bool), mask=jnp.ones(shape, bool),
      logp=jnp.broadcast_to(name, shape), rewards=jnp.zeros(shape),
      turn=jnp.zeros(shape, jnp.int32), state_id=jnp.zeros(shape, jnp.uint32),
      success=jnp.zeros((prompts, group)),
      terminated=flags, truncated=flags, version=ints + version, prompt_id=ints, sample_id=ints)


def play(durations_NPG, lag, group, sigma):
  """(names [N,P], versions [N,P], ready [N]) of what is trained on, step by step."""
  steps, prompts, _ = durations_NPG.shape
  shapes = jax.eval_shape(lambda: rollout(0, prompts, group))
  start = staleness.line(shapes, lag, group, dict(name='log_normal', sigma=sigma))

  def body(line, x):
    step, durations = x
    line, out, ready = staleness.exchange(line, rollout(step, prompts, group), step, durations)
    return line, (out.logp[:, 0, 0, 0], out.version[:, 0], ready, jnp.any(out.mask))

  run = jax.jit(lambda line, d: jax.lax.scan(body, line, (jnp.arange(steps), d)))
  return [np.asarray(x) for x in run(start, jnp.asarray(durations_NPG, jnp.float32))[1]]


def simulate(durations_NPG, batches):
  """The same with a list of (time that is left, name), float64."""
  waiting, out = [], []
  prompts = durations_NPG.shape[1]
  for step, durations in enumerate(durations_NPG):
    names = step * prompts + np.arange(prompts)
    waiting += list(zip(durations.max(axis=1), names, strict=True))
    if step < batches:
      out.append(None)
      continue
    waiting.sort()
    taken, waiting = waiting[:prompts], waiting[prompts:]
    waiting = [(left - taken[-1][0], name) for left, name in waiting]
    out.append([name for _, name in taken])
  return out


class LineTest(parameterized.TestCase):

  @parameterized.parameters((1, 1, 1.0), (3, 1, 0.5), (2, 4, 1.0), (1, 8, 1.5))
  def test_the_first_that_are_done(self, lag, group, sigma):
    rng = np.random.default_rng(lag)
    durations = np.exp(sigma * rng.normal(size=(40, 4, group)))
    batches = staleness.batches(lag, group, sigma)
    names, versions, ready, any_mask = play(durations, lag, group, sigma)
    np.testing.assert_array_equal(ready, np.arange(40) >= batches)
    np.testing.assert_array_equal(any_mask, ready)
    for step, want in enumerate(simulate(durations, batches)):
      if want is not None:
        np.testing.assert_array_equal(names[step], want)
        np.testing.assert_array_equal(versions[step], np.asarray(want) // 4)
    trained = names[ready].ravel()
    self.assertLen(set(trained), trained.size)  # each once

  def test_equal_durations_are_a_constant_lag(self):
    names, versions, ready, _ = play(np.ones((12, 3, 2)), 4, 2, 0.0)
    np.testing.assert_array_equal(np.arange(12)[ready] - versions[ready].T, np.full((3, 8), 4))
    np.testing.assert_array_equal(names[ready].ravel(), np.arange(24))

  @parameterized.parameters((1, 2.0, 6), (8, 6.1, 15), (16, 8.3, 19))
  def test_staleness_of_groups(self, group, mean, p95):
    # Mean and 95 % of a queue of 256 workers and batches of 128, log-normal with sigma 1. In the
    # pool the number of batches is whole, and workers begin at steps only.
    prompts = 128 // group
    durations = delays.log_normal(np.random.default_rng(0).normal(size=(160, prompts, group)), 1,
                                  sigma=1.0)
    _, versions, ready, _ = play(durations, 2, group, 1.0)
    age = (np.arange(160)[:, None] - versions)[ready][60:]
    self.assertAlmostEqual(age.mean(), mean, delta=0.5)
    self.assertAlmostEqual(np.quantile(age, 0.95), p95, delta=3)

  @parameterized.parameters((1, 1.0), (2, 1.5), (4, 2.2), (8, 3.1), (16, 4.2))
  def test_slowest_of_a_group(self, group, known):
    self.assertAlmostEqual(delays.slowest(group, 1.0), known, delta=0.05)
    self.assertEqual(delays.slowest(group, 0.0), 1.0)

  def test_short_rollouts_of_one_start_come_first(self):
    tokens = np.asarray([[5], [1], [3], [0]])
    got = delays.by_length(np.zeros((4, 1)), tokens, sigma=0.0)
    np.testing.assert_array_equal(got, [[5], [1], [3], [1]])
    self.assertGreater(delays.by_length(np.ones((1, 1)), tokens[:1], sigma=1.0)[0, 0], 5)


class RunTest(absltest.TestCase):

  def config(self, variant, **sample):
    c = variant.get_config('smoke,arithmetic')
    c.update_from_flattened_dict({
        'steps': 8, 'log_every': 4, 'checkpoint.every': 4, 'clone.steps': 0,
        'evaluate.prompts': 4, 'sample.lag': 2})
    c.model = dict(name='tabular')
    c.sample.delay = dict(name='by_length', sigma=0.5)
    return c

  def test_a_run_repeats_and_says_how_old_its_data_is(self):
    config = self.config(sao)
    folders = [fake_runner.folder(self), fake_runner.folder(self)]
    for folder in folders:
      loop.run(config, seeds=[0, 1], workdir=folder)
    one, two = [(f / 'metrics.jsonl').read_bytes() for f in folders]
    self.assertEqual(one, two)
    last = [r for r in sinks.read(folders[0] / 'metrics.jsonl') if r['step'] == 8]
    self.assertLen(last, 2)
    for row in last:
      shares = [v for k, v in row.items() if k.startswith('stale/share_')]
      self.assertAlmostEqual(sum(shares), 1.0, places=5)
      self.assertGreaterEqual(row['stale/lag_max'], row['stale/lag'])
      self.assertBetween(row['stale/lag'], 0.5, 4.0)

  def test_what_cannot_work(self):
    config = self.config(grpo)
    for change, message in ((dict(lag=0), 'sample.delay=by_length needs sample.lag'),
                            (dict(delay=dict(name='by_length', sigma=9.0)), 'delay.sigma'),
                            (dict(delay=dict(name='by_lenght', sigma=1.0)), 'nearest: by_length')):
      changed = config.copy_and_resolve_references()
      for name, value in change.items():
        changed.sample[name] = value
      with self.assertRaisesRegex(ValueError, message):
        loop.run(changed, seeds=[0])


if __name__ == '__main__':
  absltest.main()
