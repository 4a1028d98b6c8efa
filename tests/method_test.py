"""Methods as compositions: what must hold for every published one."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import types
from grpo.objective import advantages
from grpo.objective import aggregate
from grpo.objective import chunks
from grpo.objective import filters
from grpo.objective import kl
from grpo.objective import method
from grpo.objective import needs
from grpo.objective import ratios
from grpo.objective import returns
from grpo.objective import rewards
from grpo.objective import surrogates
from tests import rollouts

partial = functools.partial
PUBLISHED = rollouts.published()


def update(slots, x, parts=1):
  """Credit, losses, gradients and metrics of one optimiser batch, in strided parts of prompts."""
  credit = rollouts.credit(slots, x)
  weights = method.policy_weights(slots, credit)
  value_weights = None if slots.critic is None else method.value_weights(slots, credit)
  data = {k: jnp.asarray(v) for k, v in x.items()}

  def one(part):
    x, credit, weights, value_weights = part
    losses = jax.value_and_grad(partial(rollouts.loss, slots), has_aux=True)
    (policy, metrics), grad = losses(x['logp'], x, credit, weights)
    out = dict(policy=policy, grad=grad)
    if slots.critic is not None:
      losses = jax.value_and_grad(partial(method.value_loss, slots), has_aux=True)
      (value, more), value_grad = losses(x['values'], credit, value_weights)
      out, metrics = out | dict(value=value, value_grad=value_grad), metrics | more
    return out, metrics

  whole = (data, credit, weights, value_weights)
  if parts == 1:
    out, metrics = one(whole)
  else:
    split = lambda y: jnp.swapaxes(y.reshape(-1, parts, *y.shape[1:]), 0, 1)
    merge = lambda y: jnp.swapaxes(y, 0, 1).reshape(-1, *y.shape[2:])
    out, metrics = jax.lax.map(one, jax.tree.map(split, whole))
    out = {k: merge(v) if 'grad' in k else jnp.sum(v) for k, v in out.items()}
    metrics = {k: types.Peak(jnp.max(v.value)) if isinstance(v, types.Peak)
               else jax.tree.map(jnp.sum, v) for k, v in metrics.items()}
  return out | dict(advantages=credit.advantages_PGT, mask=credit.mask_PGT), metrics


@partial(jax.jit, static_argnums=0)
def credit_of(slots, rollout, values=None, last=None):
  """Credit of a rollout that needs no log-probs."""
  zero = jnp.zeros(types.stream(rollout.mask).shape)
  return method.credit(slots, rollout, old_logp_PGT=zero, values_PGT=values, last_PG=last)


@functools.cache
def program(name, parts=1):
  return jax.jit(partial(update, PUBLISHED[name], parts=parts))


def numpy(tree):
  return jax.tree.map(np.asarray, tree)


def same(got, want, tol=1e-5, **moves):
  for key in want:
    np.testing.assert_allclose(got[key], want[key], tol, tol, err_msg=key)


@parameterized.parameters(*PUBLISHED)
class EveryMethodTest(parameterized.TestCase):

  def test_invariance(self, name):
    for seed in range(3):
      x = rollouts.draw(seed, prompts=4)
      want, metrics = numpy(program(name)(x))
      self.assertTrue(all(np.all(np.isfinite(y)) for y in jax.tree.leaves((want, metrics))))
      self.assertGreater(np.linalg.norm(want['grad']), 0.0)
      off = ~x['mask']
      np.testing.assert_array_equal(want['grad'][~want['mask']], 0.0)
      np.testing.assert_array_equal(want['advantages'][~want['mask']], 0.0)
      # Whatever lies off the mask: NaN, infinity, or a reward with no token to go to.
      rng = np.random.default_rng(seed)
      junk = lambda y, off=off, rng=rng: np.where(
          off, rng.choice([np.nan, np.inf, -1e9], off.shape), y).astype(y.dtype)
      dirty = x | {k: junk(x[k]) for k in ('rewards', 'old', 'logp', 'ref', 'values', 'entropy')}
      got, dirty_metrics = numpy(program(name)(dirty))
      same(got, want, 0.0)
      jax.tree.map(np.testing.assert_array_equal, dirty_metrics, metrics)
      # The order of prompts and samples carries through.
      prompts, samples = rng.permutation(4), rng.permutation(4)
      move = lambda y, p=prompts, s=samples: y[p][:, s] if np.ndim(y) else y
      got, _ = numpy(program(name)({k: move(v) for k, v in x.items()}))
      same(got, jax.tree.map(move, want), 1e-4)

  def test_empty_batch(self, name):
    x = rollouts.draw(0, prompts=4)
    got, metrics = numpy(program(name)(x | dict(mask=np.zeros_like(x['mask']))))
    for y in jax.tree.leaves(got):
      np.testing.assert_array_equal(y, 0.0)
    self.assertTrue(all(np.all(np.isfinite(y)) for y in jax.tree.leaves(metrics)))

  def test_prompts_stay_split(self, name):
    """Under an explicit mesh every array of a row keeps its prompts over `data`: by its type."""
    mesh = jax.make_mesh((4,), ('data',), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
      split = jax.device_put(rollouts.draw(7, prompts=4), jax.P('data'))
      got, _ = jax.eval_shape(jax.jit(partial(update, PUBLISHED[name])), split)
      for key in ('advantages', 'mask', 'grad'):
        self.assertEqual(got[key].sharding.spec, jax.P('data', None, None), key)


@parameterized.parameters('rloo', 'dr_grpo', 'gspo', 'vapo')
class SplittingTest(parameterized.TestCase):

  def test_parts_and_devices(self, name):
    """Any number of parts and of devices: the same losses, gradients and metrics."""
    x = rollouts.draw(7, prompts=4)
    want, metrics = numpy(program(name)(x))
    got, merged = numpy(program(name, 2)(x))
    same(got, want)
    jax.tree.map(lambda y, z: np.testing.assert_allclose(y, z, 1e-4, 1e-5), merged, metrics)
    mesh = jax.make_mesh((4,), ('data',), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
      split = jax.device_put(x, jax.P('data'))
      got, _ = jax.jit(partial(update, PUBLISHED[name]))(split)
      self.assertEqual(jax.typeof(got['advantages']).sharding.spec, jax.P('data', None, None))
    same(numpy(got), want)


class CompositionTest(parameterized.TestCase):

  def test_columns_of_padding_change_nothing(self):
    x = rollouts.draw(3, prompts=4)
    wide = {k: np.concatenate([v, np.zeros((4, 4, 5), v.dtype)], axis=2) if v.ndim == 3 else v
            for k, v in x.items()}
    for name in ('dr_grpo', 'sao'):
      want, got = numpy(program(name)(x))[0], numpy(program(name)(wide))[0]
      same({k: v[..., :7] if np.ndim(v) else v for k, v in got.items()}, want)

  def test_same_first_step_for_every_gate(self):
    x = rollouts.draw(1)
    x['logp'] = x['old']
    gates = (partial(surrogates.ppo_clip, low=0.2, high=0.28), surrogates.reinforce,
             partial(surrogates.dis, low=0.3, high=5.0),
             partial(surrogates.cispo, low=1.0, high=0.2))
    run = jax.jit(lambda x: [update(rollouts.make(surrogate=gate), x) for gate in gates])
    results = numpy(run(x))
    for got, metrics in results:
      np.testing.assert_allclose(got['grad'], results[0][0]['grad'], 1e-6, 1e-7)
      self.assertEqual(metrics['ratio/clip_fraction'].total, 0.0)
      self.assertEqual(metrics['ratio/log_abs_max'].value, 0.0)

  def test_flat_groups(self):
    # Two groups of 2 rows with 5 tokens; the first is flat.
    mask, x = np.ones((2, 2, 5), bool), rollouts.draw(0, 2, 2, 5)
    x |= dict(mask=mask, rewards=np.zeros((2, 2, 5), np.float32))
    x['rewards'][:, :, -1] = [[0.3, 0.3], [1.0, 0.0]]
    run = jax.jit(lambda x, coef: [update(rollouts.make(
        aggregate=aggregate.token, kl=kl.k2, kl_coef=coef, filter=names), x)[0]
        for names in ((), (filters.informative,))])
    kept, dropped = numpy(run(x, 0.0))
    # Dropped, they leave the divisor: 10 tokens instead of 20.
    np.testing.assert_array_equal(dropped['mask'], [[[False]] * 2, [[True]] * 2] & mask)
    np.testing.assert_allclose(dropped['grad'], 2.0 * kept['grad'], 1e-5, 1e-7)
    np.testing.assert_array_equal(kept['grad'][0], 0.0)
    # With a KL term a kept flat group still moves the weights; a dropped one does not.
    moved, still = numpy(run(x, 0.1))
    np.testing.assert_allclose(moved['grad'][0], 0.1 / 20 * (x['logp'] - x['ref'])[0], 1e-4, 1e-7)
    np.testing.assert_array_equal(still['grad'][0], 0.0)

  def test_a_filter_does_not_centre_again(self):
    rewards_ = np.array([[1.0, 0, 0, 0], [1.0, 1, 1, 0]])[..., None]
    truncated = np.array([[0, 0, 1, 1], [0, 0, 0, 1]], bool)
    mask = np.ones((2, 4, 1), bool)
    slots = rollouts.make(filter=(filters.complete,))
    got = credit_of(slots, rollouts.rollout(mask, rewards_, truncated=truncated))
    np.testing.assert_allclose(got.advantages_PGT[..., 0],
                               [[1.5, -0.5, 0, 0], [0.5, 0.5, 0.5, 0]], 1e-5)

  def test_rows_stay_paired(self):
    """Advantages and log-probs tagged 0..7: the sum of products is 140 under every split."""
    tags = np.arange(8.0, dtype=np.float32).reshape(4, 2, 1)
    credit = method.Credit(advantages_PGT=tags, mask_PGT=np.ones(tags.shape, bool),
                           turn_PGT=np.zeros(tags.shape, int), success_PG=tags[..., 0],
                           targets_PGT=None, values_PGT=None, value_mask_PGT=None)
    slots = rollouts.make(ratio=ratios.none, surrogate=surrogates.reinforce,
                          aggregate=aggregate.token_sum)
    weights = method.policy_weights(slots, credit)
    one = jax.jit(lambda t, c, w: method.policy_loss(slots, t, None, t, None, c, w)[0])
    for parts in (1, 2, 4):
      cut = lambda tree, i, n=parts: jax.tree.map(lambda y: y[i::n], tree)
      total = sum(one(tags[i::parts], cut(credit, i), cut(weights, i)) for i in range(parts))
      self.assertEqual(-total, 140.0)

  def test_token_mean_over_the_whole_batch(self):
    # 4 tokens with loss 1 and 10 with loss 3: 34 / 14, and not the mean of two means.
    mask = np.zeros((2, 2, 8), bool)
    mask[0, :, :2], mask[1, :, :5] = True, True
    x = np.where(np.arange(2)[:, None, None] == 0, 1.0, 3.0) * np.ones(mask.shape)
    weights = aggregate.token(mask)
    total = sum(aggregate.apply(weights[i:i + 1], x[i:i + 1]) for i in range(2))
    self.assertAlmostEqual(float(total), 34 / 14, 6)

  def test_whole_turn_and_token_credit(self):
    """One turn a chunk: each turn is compared with the same turn of the other samples."""
    mask = np.array([[[1, 1, 0, 1], [1, 1, 0, 1]]], bool)
    turn = np.array([[[0, 0, -1, 1]] * 2])
    x = np.array([[[0, 1.0, 0, 0], [0, 0, 5.0, 2.0]]])
    own = partial(returns.look_ahead, n=0)
    slots = rollouts.make(chunk=partial(chunks.turn, count=2), returns=own,
                          advantages=advantages.group_center)
    credit = credit_of(slots, rollouts.rollout(mask, x, turn=turn))
    np.testing.assert_allclose(credit.advantages_PGT[0], [[0.5, 0.5, 0, -1], [-0.5, -0.5, 0, 1]])

  def test_credit_crosses_windows(self):
    """Tokens copied into a later window are off the mask: the stream is one trajectory."""
    mask = np.array([[[1, 1, 0, 0, 1, 1]]], bool)   # window 1 starts with a copied token
    x = np.array([[[0, 0, 0, 0, 0, 1.0]]])
    slots = rollouts.make(chunk=partial(chunks.segment, count=2), advantages=advantages.raw,
                          returns=partial(returns.reward_to_go, discount=0.5))
    credit = credit_of(slots, rollouts.rollout(mask, x, segments=2))
    np.testing.assert_allclose(credit.advantages_PGT[0, 0], [0.5, 0.5, 0, 0, 1, 1])

  def test_critic_targets(self):
    # A prompt of 2 and a response of 3 tokens: exactly 3 targets, in front of each token.
    mask = np.array([[[0, 0, 1, 1, 1]]], bool)
    x = np.array([[[0, 0, 0, 0, 1.0]]], 'f')
    values = np.array([[[9, 9, 0.2, 0.4, np.float32(0.6)]]], 'f')
    for truncated, end in ((False, 0.0), (True, 2.0)):
      credit = credit_of(PUBLISHED['sao'],
                         rollouts.rollout(mask, x, truncated=np.array([[truncated]])), values,
                         np.array([[2.0]], 'f'))
      np.testing.assert_array_equal(credit.value_mask_PGT, mask)
      np.testing.assert_allclose(credit.targets_PGT[0, 0], [0, 0, *[1 + end] * 3], 1e-6)

  def test_hyperparameters_may_be_traced(self):
    def run(low, coef, lam, x):
      slots = rollouts.make(
          shape=(partial(rewards.kl_in_reward, coef=coef),), chunk=chunks.token,
          returns=partial(returns.lambda_return, lam=lam, discount=lam), kl=kl.k3, kl_coef=coef,
          advantages=partial(advantages.group_zscore, eps=coef), entropy_coef=coef,
          surrogate=partial(surrogates.ppo_clip, low=low, high=low, dual=1.0 + low),
          critic=rollouts.critic_spec(clip=coef, lam=lam), aggregate=aggregate.token)
      return update(slots, x)[0]
    x = rollouts.draw(0)
    got = jax.jit(jax.vmap(run, in_axes=(0, None, 0, None)))(
        jnp.array([0.1, 0.2]), 0.1, jnp.array([0.9, 1.0]), x)
    want = jax.jit(run)(0.2, 0.1, 1.0, x)
    same(jax.tree.map(lambda y: y[1], numpy(got)), numpy(want))

  def test_needs_reference(self):
    shaped = (partial(rewards.kl_in_reward, coef=0.1),)
    self.assertFalse(needs.reference(rollouts.make()))
    self.assertTrue(needs.reference(rollouts.make(kl=kl.k3)))
    self.assertTrue(needs.reference(rollouts.make(shape=shaped)))

  def test_errors(self):
    with self.assertRaisesRegex(ValueError, 'sampler, recomputed'):
      rollouts.make(old='previous')
    mask = np.ones((1, 1, 1), bool)
    with self.assertRaisesRegex(ValueError, 'no values were given'):
      method.credit(PUBLISHED['ppo'], rollouts.rollout(mask, 1.0 * mask),
                    old_logp_PGT=jnp.zeros(mask.shape))


if __name__ == '__main__':
  absltest.main()
