"""Credit for agents: slow loops over drawn episodes, identities, and what must not matter."""

import dataclasses
import functools

from absl.testing import absltest
from absl.testing import parameterized
import hypothesis
from hypothesis import strategies
import jax
import numpy as np

from grpo.objective import advantages
from grpo.objective import agents
from grpo.objective import anchors
from grpo.objective import filters
from grpo.objective import gae
from grpo.objective import returns
from grpo.objective import trees
from tests import reference
from tests import reference_agents as slow
from tests import rollouts

partial = functools.partial
SHAPE = (2, 4, 9)
SCALES = (1.0, 1e-6, 1e4)
some = hypothesis.settings(max_examples=25, deadline=None, derandomize=True)
# Shapes stay fixed, as each would be compiled; masks draw the lengths, empty rows included.
drawn = hypothesis.given(
    seed=strategies.integers(0, 2**32 - 1), density=strategies.sampled_from((0.0, 0.2, 0.7, 1.0)),
    scale=strategies.sampled_from(SCALES), levels=strategies.sampled_from((1, 2, 50)))

GAE = dict(
    bilevel=partial(gae.bilevel_return, turn_lam=0.8, turn_discount=0.9, lam=0.7, discount=0.95,
                    bootstrap='critic'),
    bilevel_ones=partial(gae.bilevel_return, turn_lam=1.0, lam=1.0),
    local=partial(gae.adaptive_segment_return, alpha=0.6, discount=0.95),
    cross=partial(gae.cross_segment_return, lam=0.9, discount=0.95),
    rollout=partial(gae.adaptive_cross_segment_return, alpha=0.6, discount=0.95),
    segment=partial(gae.adaptive_cross_segment_return, alpha=0.6, length='segment'),
    plain=partial(returns.lambda_return, lam=0.9, discount=0.95, bootstrap='none'),
    monte_carlo=partial(returns.lambda_return, lam=1.0, bootstrap='none'))
TURNS = dict(
    gigpo=anchors.gigpo, gigpo_std=partial(anchors.gigpo, omega=0.5, normalise='mean_std'),
    hgpo=anchors.hgpo, hgpo_std=partial(anchors.hgpo, depth=1, alpha=2.0, normalise='mean_std'),
    mt_grpo=partial(agents.mt_grpo, coef=0.5), igpo=agents.igpo,
    igpo_separate=partial(agents.igpo, joint='separate', discount=0.9),
    mixed_0=partial(agents.mixed_baseline, weight=0.0),
    mixed_1=partial(agents.mixed_baseline, weight=1.0),
    mixed=partial(agents.mixed_baseline, weight=0.3))
OUTCOME = dict(
    empg=partial(agents.empg, k=0.7, k_next=1.3, over='sequence'),
    shared_prefix=trees.shared_prefix, tree_grpo=trees.tree_grpo, treerl=trees.treerl,
    spo_tree=trees.spo_tree)


@jax.jit
def every(x, valid, facts):
  """All of them: advantages of returns over tokens, of turns, and of whole trajectories."""
  context = dataclasses.replace(rollouts.context(valid), rewards_PGK=x, **facts)
  out = {k: advantages.critic(f(x, valid, context), valid, context) for k, f in GAE.items()}
  out |= {k: f(x, valid, context) for k, f in TURNS.items()}
  outcome = returns.outcome(x, valid, context)
  out |= {k: f(outcome, valid, context) for k, f in OUTCOME.items()}
  for n in (None, 0, 2):
    out[f'potential_{n}'] = gae.potential_look_ahead(x, valid, context, n=n, discount=0.9)
  return out


def draw(seed, density=0.7, scale=1.0, levels=50):
  """Rewards of few or many levels, where they are, and facts."""
  rng = np.random.default_rng(seed)
  valid = rng.random(SHAPE) < density
  x = (scale * rng.integers(0, levels, SHAPE) / 7).astype('f')
  facts = dict(
      values_PGK=(scale * rng.normal(size=SHAPE)).astype('f'),
      bootstrap_PG=(scale * rng.normal(size=SHAPE[:2])).astype('f'),
      truncated_PG=rng.random(SHAPE[:2]) < 0.5,
      turn_PGK=np.where(valid, np.sort(rng.integers(0, 4, SHAPE), axis=2), -1),
      segment_PGK=np.where(valid, np.sort(rng.integers(0, 3, SHAPE), axis=2), -1),
      state_id_PGK=rng.choice(np.array([3, 7, 2**32 - 1], np.uint32), SHAPE),
      entropy_PGK=rng.gamma(1.0, 1.0, SHAPE).astype('f'),
      potential_PGK=(scale * rng.random(SHAPE)).astype('f'),
      node_PGK=np.where(valid, np.array([[0, 0, 2, 2]] * 4 + [[0, 1, 2, 3]] * 5).T, -1))
  return x, valid, facts


def numpy(tree):
  return {k: np.asarray(v) for k, v in tree.items()}


def close(got, want, scale=1.0, tol=5e-4):
  np.testing.assert_allclose(got, want, tol, tol * scale)


class ParityTest(parameterized.TestCase):

  @some
  @drawn
  def test_returns(self, seed, density, scale, levels):
    x, valid, facts = draw(seed, density, scale, levels)
    got = numpy(every(x, valid, facts))
    lams = dict(cross=(0.95, lambda n, own: 0.9),
                rollout=(0.95, lambda n, own: reference.adaptive_lambda(0.6, n)),
                segment=(1.0, lambda n, own: reference.adaptive_lambda(0.6, own)),
                local=(0.95, lambda n, own: reference.adaptive_lambda(0.6, own)))
    for p, g in np.ndindex(SHAPE[:2]):
      row = partial(np.asarray, dtype=np.float64)
      r, v, ok = row(x[p, g]), row(facts['values_PGK'][p, g]), valid[p, g]
      turn, window = facts['turn_PGK'][p, g], facts['segment_PGK'][p, g]
      end = facts['bootstrap_PG'][p, g] if facts['truncated_PG'][p, g] else 0.0
      close(got['bilevel'][p, g], slow.bilevel(r, v, ok, turn, 0.9, 0.8, 0.95, 0.7, end), scale)
      for name, (discount, lam) in lams.items():
        want = slow.cross_segment(r, v, ok, window, discount, lam, decays=name != 'local')
        close(got[name][p, g], want, scale)
      phi = slow.shaped(r, row(facts['potential_PGK'][p, g]), ok, 0.9)
      close(got['potential_None'][p, g], reference.reward_to_go(phi, ok, 0.9), scale)
      close(got['potential_0'][p, g], phi, scale)
      look = reference.look_ahead(phi, ok, 2, 0.9, np.zeros(9), 0.0)
      close(got['potential_2'][p, g], look, scale)

  @some
  @drawn
  def test_turns(self, seed, density, scale, levels):
    x, valid, facts = draw(seed, density, scale, levels)
    got = numpy(every(x, valid, facts))
    for p in range(SHAPE[0]):
      r, ok, state = x[p].astype(float), valid[p], facts['state_id_PGK'][p]
      close(got['gigpo'][p], slow.gigpo(r, r, ok, state, 'mean', 1.0), scale)
      close(got['hgpo'][p], slow.hgpo(r, ok, state, 2, 1.0, 'mean'), scale)
      loo = reference.group(r, ok, 'loo', 'index')
      critic = np.where(ok, r - facts['values_PGK'][p], 0.0)
      close(got['mixed'][p], 0.3 * loo + 0.7 * critic, scale)
      if scale < 1e-3:
        continue  # epsilons of the papers are as large as the spread: rounding of it shows
      close(got['gigpo_std'][p], slow.gigpo(r, r, ok, state, 'mean_std', 0.5))
      close(got['hgpo_std'][p], slow.hgpo(r, ok, state, 1, 2.0, 'mean_std'))
      close(got['mt_grpo'][p], slow.mt_grpo(r, r, ok, 0.5))
      close(got['igpo'][p], slow.igpo(r, ok, 'joint', 1.0), 2.0)
      close(got['igpo_separate'][p], slow.igpo(r, ok, 'separate', 0.9), 2.0)

  @some
  @drawn
  def test_outcomes(self, seed, density, scale, levels):
    x, valid, facts = draw(seed, density, scale, levels)
    # Leaves have no gaps, and those that share a node reach it together.
    length = np.array([[9, 9, 5, 5], [4, 3 * (density > 0), 0, 0]])
    valid = np.arange(9) < length[..., None]
    length[1, 1] = 4 if length[1, 1] else 0
    valid = (np.arange(9) < length[..., None]) & (density > 0)
    facts['node_PGK'] = np.where(valid, np.array([[0, 0, 2, 2]] * 4 + [[0, 1, 2, 3]] * 5).T, -1)
    got = numpy(every(x, valid, facts))
    outcome = np.array([slow.totals(x[p].astype(float), valid[p]) for p in range(2)])
    whole = np.broadcast_to(outcome[..., None], SHAPE)
    close(got['empg'], slow.empg(whole, facts['entropy_PGK'].astype(float), valid, 0.7, 1.3, 0.1))
    for p in range(2):
      for kind in ('shared_prefix', 'tree_grpo', 'treerl', 'spo_tree'):
        if scale < 1e-3 and kind in ('shared_prefix', 'tree_grpo'):
          continue  # as above
        want = slow.tree(kind, outcome[p], valid[p], facts['node_PGK'][p])
        size = 10 * scale if kind in ('treerl', 'spo_tree') else 1.0
        close(got[kind][p], want, size)


class PropertyTest(parameterized.TestCase):

  @some
  @drawn
  def test_garbage_and_order(self, seed, density, scale, levels):
    """NaN and infinity off the mask change nothing; prompts and samples carry through."""
    x, valid, facts = draw(seed, density, scale, levels)
    want = numpy(every(x, valid, facts))
    for name, a in want.items():
      self.assertTrue(np.all(np.isfinite(a)), name)
      np.testing.assert_array_equal(a[~valid], 0.0, name)
    rng = np.random.default_rng(seed)
    junk = lambda y: np.where(valid, y, rng.choice([np.nan, np.inf, -1e9], SHAPE)).astype('f')
    floats = ('values_PGK', 'entropy_PGK', 'potential_PGK')
    dirty = numpy(every(junk(x), valid, facts | {k: junk(facts[k]) for k in floats}))
    for name, a in want.items():
      np.testing.assert_array_equal(dirty[name], a, name)
    prompts, samples = rng.permutation(2), rng.permutation(4)
    move = lambda y: y[prompts][:, samples]
    moved = numpy(every(move(x), move(valid), {k: move(v) for k, v in facts.items()}))
    for name, a in want.items():
      np.testing.assert_allclose(moved[name], move(a), 1e-3, 1e-3 * max(scale, 1.0), name)

  @parameterized.parameters(0.0, 0.1, 0.3, 1 / 3, 1e6, -7.7)
  def test_flat_groups_get_nothing(self, value):
    """Equal rewards at unequal lengths: exactly 0, but for what reads more than a group."""
    _, _, facts = draw(0)
    valid = np.arange(9) < np.array([[9, 4, 6, 1], [2, 2, 2, 2]])[..., None]
    last = valid & ~np.concatenate([valid[..., 1:], np.zeros((2, 4, 1), bool)], axis=2)
    facts |= dict(node_PGK=np.where(valid, facts['node_PGK'], -1))
    context = dataclasses.replace(rollouts.context(valid), rewards_PGK=np.where(last, value, 0.0),
                                  **facts)
    same = np.where(valid, np.float32(value), 0.0)
    run = {k: f for k, f in (TURNS | OUTCOME).items() if k in (
        'gigpo', 'gigpo_std', 'hgpo', 'hgpo_std', 'igpo', 'igpo_separate', 'mixed_1',
        'shared_prefix', 'tree_grpo', 'treerl', 'spo_tree', 'mt_grpo')}
    got = jax.jit(lambda x: {k: f(x, valid, context) for k, f in run.items()})(same)
    for name, a in got.items():
      np.testing.assert_array_equal(a, 0.0, name)

  @some
  @drawn
  def test_identities(self, seed, density, scale, levels):
    x, valid, facts = draw(seed, density, scale, levels)
    facts |= dict(truncated_PG=np.zeros(SHAPE[:2], bool))
    got = numpy(every(x, valid, facts))
    turn = facts['turn_PGK']
    index = np.arange(9)
    after = np.array([[[np.any(valid[p, g, k + 1:] & (turn[p, g, k + 1:] == turn[p, g, k]))
                        for k in index] for g in range(4)] for p in range(2)])
    paid = numpy(every(np.where(after, 0.0, x).astype('f'), valid, facts))
    close(paid['bilevel_ones'], paid['monte_carlo'], scale)
    # Leave-one-out is the centred return times n / (n - 1).
    n = valid.sum(axis=1, keepdims=True)
    center = np.stack([reference.group(x[p].astype(float), valid[p], 'center', 'index')
                       for p in range(2)])
    close(got['mixed_1'], center * n / np.maximum(n - 1, 1), scale)
    close(got['mixed_0'], np.where(valid, x - facts['values_PGK'], 0.0), scale)
    # Nothing cut: cross-trajectory GAE is GAE. Values of 0: it is GAE of the joined stream, when
    # the reward is at the end.
    one = numpy(every(x, valid, facts | dict(segment_PGK=np.where(valid, 0, -1))))
    close(one['cross'], one['plain'], scale)
    last = valid & (index == np.where(valid, index, -1).max(axis=2, keepdims=True))
    end = np.where(last, x, 0.0).astype('f')
    blind = numpy(every(end, valid, facts | dict(values_PGK=np.zeros(SHAPE, 'f'))))
    close(blind['cross'], blind['plain'], scale)

  @some
  @hypothesis.given(seed=strategies.integers(0, 2**32 - 1))
  def test_inserted_observations_change_nothing(self, seed):
    """Spreading episodes over rows with holes moves their numbers and alters none."""
    x, _, facts = draw(seed)
    rng = np.random.default_rng(seed)
    near = np.broadcast_to(np.arange(9) < 5, SHAPE)
    index = np.sort(rng.choice(9, 5, replace=False))

    def far(y):
      if y.ndim < 3:
        return y
      out = np.full(SHAPE, -1 if y.dtype == int else 0).astype(y.dtype)
      out[..., index] = y[..., :5]
      return out

    tidy = lambda y: np.where(near, y, -1) if y.ndim == 3 and y.dtype == int else y
    facts = {k: tidy(v) for k, v in facts.items()}
    facts |= {k: np.where(near, np.sort(rng.integers(0, 3, SHAPE), axis=2), -1)
              for k in ('turn_PGK', 'segment_PGK')}
    valid = np.zeros(SHAPE, bool)
    valid[..., index] = True
    want = numpy(every(x, near, facts))
    got = numpy(every(far(x), valid, {k: far(v) for k, v in facts.items()}))
    for name in (*GAE, 'mt_grpo', 'hgpo', 'igpo', 'gigpo', 'empg', 'potential_None', 'potential_2'):
      np.testing.assert_allclose(got[name][..., index], want[name][..., :5], 2e-4, 2e-4, name)

  def test_prompts_stay_split(self):
    """Under an explicit mesh no function gathers prompts, the relative filter included."""
    mesh = jax.make_mesh((2,), ('data',), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
      x, valid, facts = jax.device_put(draw(0), jax.P('data'))
      for name, a in jax.eval_shape(every, x, valid, facts).items():
        self.assertEqual(a.sharding.spec, jax.P('data', None, None), name)
      keep = jax.eval_shape(lambda x, ok: filters.uncertain(rollouts.facts(x, ok)), x[..., 0],
                            valid[..., 0])
      self.assertEqual(keep.sharding.spec, jax.P('data', None))


if __name__ == '__main__':
  absltest.main()
