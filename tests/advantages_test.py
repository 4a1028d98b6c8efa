"""Advantages: worked examples, flat groups, slow loops, and what must not leak between groups."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import hypothesis
from hypothesis import strategies
import jax
import numpy as np

from grpo.objective import advantages
from tests import reference
from tests import rollouts

partial = functools.partial
SHAPE = (3, 4, 5)
OVER = ('index', 'pooled', 'sequence')
GROUP = {f'{name} {over}': partial(getattr(advantages, name), over=over) for over in OVER
         for name in ('group_center', 'group_zscore', 'leave_one_out', 'group_mean_batch_std')}


def every(functions):
  """One program that runs all of them: {name: advantages}."""
  @jax.jit
  def run(x, valid, values):
    context = rollouts.context(valid, values=values, baseline=np.float32(0.5))
    return {name: f(x, valid, context) for name, f in functions.items()}
  def call(x, valid=None, values=None):
    x = np.asarray(x, np.float32)
    valid = np.ones(x.shape, bool) if valid is None else np.asarray(valid, bool)
    values = np.zeros_like(x) if values is None else np.asarray(values, np.float32)
    return {k: np.asarray(v) for k, v in run(x, valid, values).items()}
  return call


ALL = {name: getattr(advantages, name) for name in advantages.__all__}
run_all, run_group = every(ALL), every(GROUP)


class WorkedExamplesTest(parameterized.TestCase):

  def test_one_group(self):
    # Rewards 1, 0, 0, 0: mean 1/4, squares 9/16 + 3/16 = 3/4, sample std 1/2.
    got = {k: v[0, :, 0] for k, v in run_all([[[1.0], [0.0], [0.0], [0.0]]]).items()}
    np.testing.assert_allclose(got['raw'], [1, 0, 0, 0])
    np.testing.assert_allclose(got['group_center'], [0.75, -0.25, -0.25, -0.25])
    np.testing.assert_allclose(got['group_zscore'], [1.5, -0.5, -0.5, -0.5], 1e-6)
    np.testing.assert_allclose(got['leave_one_out'], [1, -1 / 3, -1 / 3, -1 / 3], 1e-6)
    np.testing.assert_allclose(got['group_mean_batch_std'], [1.5, -0.5, -0.5, -0.5], 1e-6)
    np.testing.assert_allclose(got['minus_baseline'], [0.5, -0.5, -0.5, -0.5])
    np.testing.assert_allclose(got['critic'], [1, 0, 0, 0])

  def test_choice_of_numbers(self):
    # Two samples; the first has chunks 0 and 4, the second one chunk 2.
    x, valid = [[[0.0, 4.0], [2.0, 9.0]]], [[[1, 1], [1, 0]]]
    got = {k: v[0] for k, v in run_group(x, valid).items()}
    # index: chunk 0 has {0, 2}, mean 1; chunk 1 has one member and gets 0.
    np.testing.assert_allclose(got['group_center index'], [[-1, 0], [1, 0]])
    # pooled: {0, 4, 2}, mean 2. sequence: means {2, 2}, mean 2; no spread, so the z-score is 0.
    np.testing.assert_allclose(got['group_center pooled'], [[-2, 2], [0, 0]])
    np.testing.assert_allclose(got['group_center sequence'], [[-2, 2], [0, 0]])
    np.testing.assert_allclose(got['group_zscore pooled'], [[-1, 1], [0, 0]])
    np.testing.assert_allclose(got['group_zscore sequence'], [[0, 0], [0, 0]])
    np.testing.assert_allclose(got['leave_one_out pooled'], [[-3, 3], [0, 0]])

  def test_normalised_inside_the_group_and_once(self):
    x = np.array([[[1.0], [0.0]], [[10.0], [9.0]]])
    got = run_all(x)['group_zscore']
    half = np.sqrt(0.5)
    np.testing.assert_allclose(got[..., 0], [[half, -half], [half, -half]], 1e-6)
    x[1] += 100.0
    for name, moved in run_all(x).items():
      if name.startswith(('group_c', 'group_z', 'leave')):
        np.testing.assert_array_equal(moved[0], run_all([x[0], x[0]])[name][0])

  def test_whitening_of_few_or_equal_numbers_is_skipped(self):
    for valid in ([[[0], [0]]], [[[1], [0]]], [[[1], [1]]]):
      got = run_all([[[2.0], [2.0]]], valid)
      np.testing.assert_array_equal(got['critic_whiten'], np.where(valid, 2.0, 0.0))
      np.testing.assert_array_equal(got['batch_zscore'], 0.0)

  def test_group_of_one(self):
    one, yes = np.full((1, 1, 1), 0.7, np.float32), np.ones((1, 1, 1), bool)
    for name in ('group_zscore', 'group_center', 'group_mean_batch_std'):
      self.assertEqual(jax.jit(partial(ALL[name], context=None))(one, yes), 0.0)
    with self.assertRaisesRegex(ValueError, 'at least 2 samples'):
      advantages.leave_one_out(one, yes, None)
    # One valid member of a larger group.
    for got in run_group([[[0.7], [9.0]]], [[[1], [0]]]).values():
      np.testing.assert_array_equal(got, 0.0)

  @parameterized.parameters(0.1, 0.3, 1 / 3, 1e-8, 1e6, -0.1)
  def test_flat_group_is_exactly_zero(self, reward):
    rng = np.random.default_rng(0)
    valid = rng.random((2, 7, 5)) < 0.5   # unequal lengths, empty rows too
    valid[:, 0] = True
    for x in (np.full((2, 7, 5), reward), reward + 1e-7 * abs(reward) * rng.random((2, 7, 5))):
      for name, got in run_group(x, valid).items():
        np.testing.assert_array_equal(got, 0.0, name)

  def test_errors(self):
    x = np.ones((1, 2, 1), np.float32)
    with self.assertRaisesRegex(ValueError, 'allowed: index, pooled, sequence'):
      advantages.group_center(x, x > 0, None, over='batch')
    for name in ('critic', 'minus_baseline'):
      with self.assertRaises(ValueError):
        ALL[name](x, x > 0, rollouts.context(x > 0))


class PropertiesTest(parameterized.TestCase):

  @hypothesis.settings(max_examples=25, deadline=None, derandomize=True)
  @hypothesis.given(seed=strategies.integers(0, 2**32 - 1))
  def test_parity_and_invariance(self, seed):
    rng = np.random.default_rng(seed)
    x = rng.choice([0.0, 1.0, 0.1, -2.0, 0.3], SHAPE).astype('f')
    values = rng.normal(size=SHAPE).astype('f')
    valid = rng.random(SHAPE) < rng.random()
    got, whole = run_group(x, valid), run_all(x, valid, values)
    _, batch_std = reference.mean_std(list(x[valid].astype(float))) if valid.any() else (0, 0.0)
    kinds = dict(group_center='center', group_zscore='zscore', leave_one_out='loo',
                 group_mean_batch_std='batch_std')
    for name, y in got.items():
      name, over = name.split()
      for p in range(SHAPE[0]):
        want = reference.group(x[p].astype(float), valid[p], kinds[name], over,
                               batch_std=batch_std)
        np.testing.assert_allclose(y[p], want, 2e-4, 2e-4, err_msg=f'{name} {over}')
    # What lies off the mask does not matter, whatever it is.
    dirty = np.where(valid, x, rng.choice([np.nan, np.inf, 1e9], SHAPE))
    for name, y in run_group(dirty, valid).items():
      np.testing.assert_array_equal(y, got[name], name)
    dirty_values = np.where(valid, values, np.nan)
    for name, y in run_all(dirty, valid, dirty_values).items():
      np.testing.assert_array_equal(y, whole[name], name)
      np.testing.assert_array_equal(y[~valid], 0.0)
    # The order of prompts and samples carries through.
    prompts, samples = rng.permutation(SHAPE[0]), rng.permutation(SHAPE[1])
    move = lambda y: y[prompts][:, samples]
    for name, y in run_all(move(x), move(valid), move(values)).items():
      np.testing.assert_allclose(y, move(whole[name]), 1e-4, 1e-4, err_msg=name)

  def test_reward_shift_and_scale(self):
    x = np.random.default_rng(0).integers(0, 5, SHAPE).astype('f')
    base, shifted, scaled = run_group(x), run_group(x + 8.0), run_group(x * 4.0)
    for name in base:
      np.testing.assert_allclose(shifted[name], base[name], 1e-5, 1e-5)
      factor = 1.0 if name.startswith(('group_z', 'group_m')) else 4.0
      np.testing.assert_allclose(scaled[name], factor * base[name], 1e-5, 1e-5)

  def test_group_baselines_are_unbiased_up_to_a_factor(self):
    """Three actions, two samples: all nine pairs, against the exact policy gradient."""
    probs, reward = np.array([0.2, 0.5, 0.3]), np.array([1.0, 0.0, 4.0])
    pairs = [(a, b) for a in range(3) for b in range(3)]
    x = np.array([[[reward[a]], [reward[b]]] for a, b in pairs])
    score = np.eye(3) - probs             # d log pi(a) / d logits
    exact = probs @ (reward[:, None] * score)
    for name, factor in (('leave_one_out index', 1.0), ('group_center index', 0.5)):
      y = run_group(x)[name][..., 0]
      got = sum(probs[a] * probs[b] * (y[i, 0] * score[a] + y[i, 1] * score[b]) / 2
                for i, (a, b) in enumerate(pairs))
      np.testing.assert_allclose(got, factor * exact, 1e-5, 1e-5)


if __name__ == '__main__':
  absltest.main()
