"""Chunks and returns: worked examples, slow loops, and properties of random episodes."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import hypothesis
from hypothesis import strategies
import jax
import jax.numpy as jnp
import numpy as np

from grpo.objective import advantages
from grpo.objective import chunks
from grpo.objective import returns
from tests import reference
from tests import rollouts

partial = functools.partial
SHAPE = (2, 3, 12)
seeds = hypothesis.given(seed=strategies.integers(0, 2**32 - 1))
look_two, look_zero, look_far = (partial(returns.look_ahead, n=n) for n in (2, 0, 12))
some = hypothesis.settings(max_examples=25, deadline=None, derandomize=True)


@partial(jax.jit, static_argnames=('function', 'bootstrap'))
def run(function, rewards, valid, values, last, truncated, numbers, bootstrap):
  context = rollouts.context(valid, values=values, bootstrap=last, truncated=truncated)
  got = function(rewards, valid, context, bootstrap=bootstrap, **numbers)
  return got, advantages.critic(got, valid, context)


def draw(seed):
  rng = np.random.default_rng(seed)
  valid = rng.random(SHAPE) < rng.random()
  return (rng.normal(size=SHAPE).astype('f'), valid, rng.normal(size=SHAPE).astype('f'),
          rng.normal(size=SHAPE[:2]).astype('f'), rng.random(SHAPE[:2]) < 0.5)


def episodes(*arrays):
  for p in range(SHAPE[0]):
    for g in range(SHAPE[1]):
      yield (p, g), [x[p, g] for x in arrays]


class ChunksTest(parameterized.TestCase):

  def test_worked_example(self):
    # Two turns of 2 and 1 trained tokens with an observation between them, in two windows.
    mask = np.array([[[1, 1, 0, 0, 1, 0]]], bool)
    turn = np.array([[[0, 0, -1, -1, 1, -1]]])
    window = np.array([[[0, 0, 0, 1, 1, 1]]])
    x = np.array([[[1.0, 2.0, np.nan, np.inf, 5.0, 7.0]]], np.float32)
    expected = dict(whole=[0, 0, -1, -1, 0, -1], turn=[0, 0, -1, -1, 1, -1],
                    turns=[0, 0, -1, -1, 0, -1], fixed=[0, 0, -1, -1, 1, -1],
                    segment=[0, 0, -1, -1, 1, -1],
                    token=[0, 1, -1, -1, 4, -1])
    slots = dict(whole=chunks.whole, turn=partial(chunks.turn, count=3),
                 turns=partial(chunks.turns, length=2, count=2),
                 fixed=partial(chunks.fixed, length=2, count=2),
                 segment=partial(chunks.segment, count=2), token=chunks.token)
    sums = dict(whole=[8.0], turn=[3.0, 5.0, 0.0], turns=[8.0, 0.0], fixed=[3.0, 5.0],
                segment=[3.0, 5.0], token=[1.0, 2.0, 0.0, 0.0, 5.0, 0.0])
    self.assertSameElements(slots, chunks.__all__)

    @jax.jit
    def every(x, mask, turn, window):
      out = {}
      for name, slot in slots.items():
        chunk, count = slot(mask, turn, window)
        total = chunks.total(x, chunk, count)
        out[name] = chunk, total, chunks.first(x, chunk, count), chunks.spread(total, chunk)
      return out

    for name, (chunk, total, first, spread) in every(x, mask, turn, window).items():
      np.testing.assert_array_equal(chunk[0, 0], expected[name], name)
      np.testing.assert_array_equal(total[0, 0], sums[name], name)
      # The sums 3 and 8 are those of chunks whose first token has 1.
      firsts = np.where(np.isin(sums[name], [3.0, 8.0]), 1.0, sums[name])
      np.testing.assert_array_equal(first[0, 0], firsts, name)
      on = np.where(mask[0, 0], np.array(sums[name])[np.maximum(expected[name], 0)], 0.0)
      np.testing.assert_array_equal(spread[0, 0], on, name)

  @some
  @seeds
  def test_parity(self, seed):
    rng = np.random.default_rng(seed)
    mask, x = rng.random(SHAPE) < 0.6, rng.normal(size=SHAPE).astype('f')
    turn = np.sort(rng.integers(0, 5, SHAPE), axis=2)
    window = np.broadcast_to(np.arange(12) // 4, SHAPE)
    for name, got in _chunk_everything(x, mask, turn, window).items():
      chunk, total, first, tokens = (np.asarray(y) for y in got)
      count = total.shape[2]
      length = 2 if name == 'fixed' else None
      for (p, g), (m, t, w, row) in episodes(mask, turn, window, x):
        want = reference.chunk_of(name, m, t, w, length=length, count=count)
        np.testing.assert_array_equal(chunk[p, g], want)
        np.testing.assert_allclose(total[p, g], reference.chunk_totals(row, want, count), 1e-5,
                                   1e-5)
        np.testing.assert_allclose(first[p, g], reference.chunk_firsts(row, want, count), 1e-6)
        np.testing.assert_array_equal(
            tokens[p, g], reference.chunk_totals(np.ones(len(m)), want, count))


@jax.jit
def _chunk_everything(x, mask, turn, window):
  slots = dict(whole=chunks.whole, turn=partial(chunks.turn, count=3),
               fixed=partial(chunks.fixed, length=2, count=4),
               segment=partial(chunks.segment, count=3), token=chunks.token)
  out = {}
  for name, slot in slots.items():
    chunk, count = slot(mask, turn, window)
    out[name] = (chunk, chunks.total(x, chunk, count), chunks.first(x, chunk, count),
                 chunks.tokens(chunk, count))
  return out


class ReturnsTest(parameterized.TestCase):

  def row(self, function, rewards, mask, values=None, last=0.0, truncated=False, bootstrap='none',
          **numbers):
    """One episode, padded to the common length so that the program is compiled once."""
    fill = lambda x, value: np.concatenate([x, np.full(12 - len(x), value)])[None, None]
    values = np.zeros(len(mask)) if values is None else values
    out = run(function, fill(np.asarray(rewards, 'f'), 9.0).astype('f'),
              fill(np.asarray(mask), 0).astype(bool), fill(values, np.nan).astype('f'),
              np.array([[last]], 'f'), np.array([[truncated]]),
              {k: np.float32(v) for k, v in numbers.items()}, bootstrap)
    return [np.asarray(x)[0, 0, :len(mask)] for x in out]

  def test_outcome(self):
    valid = np.array([[[1, 0, 1]]], bool)
    got = returns.outcome(jnp.array([[[1.0, 7.0, 2.0]]]), valid, None)
    np.testing.assert_array_equal(got[0, 0], [3.0, 0.0, 3.0])

  def test_an_observation_token_does_not_cut_the_return(self):
    got, _ = self.row(returns.reward_to_go, [0, 0, 0, 2], [1, 0, 0, 1], discount=0.5)
    np.testing.assert_allclose(got, [1.0, 0, 0, 2.0])

  def test_a_limit_is_not_an_end(self):
    # Steps 0 and 1 are cut by a limit with successor value 5; steps 2 and 3 go on, value 2.
    # delta_1 = 1 + 0.9 * 5 - 3 = 2.5, delta_0 = 1 + 0.9 * 3 - 2 = 1.7, A_0 = 1.7 + 0.72 * 2.5.
    gae = partial(self.row, returns.lambda_return, [1, 1], [1, 1], discount=0.9, lam=0.8)
    cut = partial(gae, truncated=True, bootstrap='critic')
    np.testing.assert_allclose(cut([2, 3], last=5.0)[1], [3.5, 2.5], 1e-6)
    np.testing.assert_allclose(cut([1, 2], last=2.0)[1], [2.376, 0.8], 1e-6)
    # The task ended it: the same call with a value that must not be used.
    ended = gae([2, 3], last=5.0, truncated=False, bootstrap='critic')
    np.testing.assert_allclose(ended[1], [0.26, -2.0], 1e-6)

  def test_values_off_the_mask_do_not_flow_back(self):
    for garbage in (50.0, np.nan, np.inf):
      got = self.row(returns.lambda_return, [0, 1, 0], [1, 1, 0], [0.2, 0.4, garbage],
                     discount=1.0, lam=0.9)
      np.testing.assert_allclose(got[1], [0.74, 0.60, 0], 1e-6)

  def test_look_ahead_worked_example(self):
    # Chunk rewards 1, 2, 4, discount 0.5. n = 1: 1 + 0.5 * 2 = 2, 2 + 0.5 * 4 = 4, 4.
    # With the critic's values 8, 8, 8 after two chunks: 2 + 0.25 * 8 = 4, and no future for others.
    look = partial(self.row, partial(returns.look_ahead, n=1), [1, 2, 0, 4], [1, 1, 0, 1],
                   [8, 8, 9, 8], discount=0.5)
    np.testing.assert_allclose(look()[0], [2, 4, 0, 4])
    np.testing.assert_allclose(look(bootstrap='critic')[0], [4, 4, 0, 4])
    # One sample is its own group: the mean return-to-go is its own, so n does not matter.
    np.testing.assert_allclose(look(bootstrap='group')[0], [3, 4, 0, 4])

  def test_group_bootstrap(self):
    # Samples with chunk rewards (1, 2) and (3, 6), n = 0, discount 1: own reward, then mean(2, 6).
    rewards, valid = jnp.array([[[1.0, 2.0], [3.0, 6.0]]]), jnp.ones((1, 2, 2), bool)
    got = returns.look_ahead(rewards, valid, rollouts.context(valid), n=0, bootstrap='group')
    np.testing.assert_allclose(got[0], [[5.0, 2.0], [7.0, 6.0]])

  @some
  @seeds
  def test_parity(self, seed):
    rewards, valid, values, last, truncated = data = draw(seed)
    discount, lam, alpha = (np.float32(x) for x in (0.9, 0.8, 0.4))
    for bootstrap in ('none', 'critic'):
      to_go, _ = run(returns.reward_to_go, *data, dict(discount=discount), bootstrap)
      look, _ = run(look_two, *data, dict(discount=discount), bootstrap)
      _, gae = run(returns.lambda_return, *data, dict(discount=discount, lam=lam), bootstrap)
      _, adaptive = run(returns.adaptive_lambda_return, *data,
                        dict(discount=discount, alpha=alpha), bootstrap)
      for (p, g), (r, ok, v, boot, cut) in episodes(rewards, valid, values, last, truncated):
        boot = float(boot) if cut and bootstrap == 'critic' else 0.0
        check = partial(np.testing.assert_allclose, rtol=2e-5, atol=2e-5)
        check(to_go[p, g], reference.reward_to_go(r, ok, discount, boot))
        after = v if bootstrap == 'critic' else np.zeros(12)
        check(look[p, g], reference.look_ahead(r, ok, 2, discount, after, boot))
        check(gae[p, g], reference.gae(r, v, ok, discount, lam, boot))
        adapted = reference.adaptive_lambda(alpha, np.sum(ok))
        check(adaptive[p, g], reference.gae(r, v, ok, discount, adapted, boot))

  @some
  @seeds
  def test_identities(self, seed):
    rewards, valid, values, last, truncated = data = draw(seed)
    go = partial(run, returns.lambda_return, *data)
    one, zero = np.float32(1.0), np.float32(0.0)
    # lam = 1: Monte-Carlo minus value. lam = 0: the one-step error, which is n = 0 with the critic.
    mc, _ = run(returns.reward_to_go, *data, dict(discount=one), 'critic')
    np.testing.assert_allclose(go(dict(discount=one, lam=one), 'critic')[0], mc, 1e-5, 1e-5)
    td, _ = run(look_zero, *data, dict(discount=one), 'critic')
    np.testing.assert_allclose(go(dict(discount=one, lam=zero), 'critic')[0], td, 1e-5, 1e-5)
    # Look far enough ahead and it is the reward-to-go.
    far, _ = run(look_far, *data, dict(discount=one), 'none')
    mc, _ = run(returns.reward_to_go, *data, dict(discount=one), 'none')
    np.testing.assert_allclose(far, mc, 1e-5, 1e-5)

  @some
  @seeds
  def test_inserted_observations_change_nothing(self, seed):
    """Spreading an episode over a row with holes moves its numbers and alters none."""
    rng = np.random.default_rng(seed)
    rewards, values = (rng.normal(size=7).astype('f') for _ in range(2))
    index = np.sort(rng.choice(12, 7, replace=False))
    far_rewards, far_values, mask = np.full(12, 9.0), np.full(12, np.nan), np.zeros(12)
    far_rewards[index], far_values[index], mask[index] = rewards, values, 1
    kw = dict(last=0.7, truncated=True, bootstrap='critic', discount=0.9, lam=0.8)
    near = self.row(returns.lambda_return, rewards, np.ones(7), values, **kw)
    far = self.row(returns.lambda_return, far_rewards, mask, far_values, **kw)
    np.testing.assert_allclose(far[1][index], near[1], 1e-5, 1e-5)
    np.testing.assert_array_equal(far[1][mask == 0], 0.0)

  def test_episode_ends(self):
    """Random ends: one convention, checked against a loop over episodes."""
    rng = np.random.default_rng(0)
    for _ in range(100):
      reward, value = rng.normal(size=12), rng.normal(size=12)
      ends = sorted(set(rng.integers(1, 12, 2)) | {12})
      start = 0
      for end in ends:
        part = slice(start, end)
        got = self.row(returns.lambda_return, reward[part], np.ones(end - start), value[part],
                       discount=0.9, lam=0.8)
        want = reference.gae(reward[part], value[part], np.ones(end - start), 0.9, 0.8)
        np.testing.assert_allclose(got[1], want, 1e-5, 1e-5)
        start = end

  @parameterized.parameters(
      (partial(returns.look_ahead, n=None, bootstrap='group'), 'look_ahead'),
      (partial(returns.look_ahead, n=1, bootstrap='best'), 'allowed: none, critic, group'),
      (partial(returns.look_ahead, n=1, bootstrap='critic'), 'needs the values of a critic'),
      (partial(returns.lambda_return, lam=1.0), 'needs the values of a critic'),
      (partial(returns.reward_to_go, bootstrap='critic'), "without it use bootstrap='none'"),
      (partial(returns.reward_to_go, bootstrap='zero'), 'allowed: none, critic, repeat'))
  def test_errors_say_what_is_allowed(self, function, message):
    valid = np.ones((1, 1, 2), bool)
    with self.assertRaisesRegex(ValueError, message):
      jax.eval_shape(lambda x: function(x, valid, rollouts.context(valid)), jnp.ones((1, 1, 2)))


if __name__ == '__main__':
  absltest.main()
