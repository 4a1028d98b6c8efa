"""Layouts on four fake devices: what is split, what never is, and that the numbers stay."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
import optax

from grpo import types
from grpo.learn import sharding
from grpo.models import transformer


def specs(tree, state, **kwargs):
  shardings = sharding.state_shardings(state, tree, min_size=1, **kwargs)
  return jax.tree.map(lambda s: s.spec, shardings)


SHAPE = transformer.Shape(vocab=24, layers=2, hidden=16, heads=4, kv_heads=2, head_dim=8, mlp=32,
                          tied=False)


def rollout(prompts, *lead):
  shape, short = (*lead, prompts, 2, 1, 8), (*lead, prompts, 2)
  leaf = lambda name: jnp.zeros(shape if name in types.Rollout.__dataclass_fields__ and name in (
      'tokens', 'valid', 'mask', 'logp', 'rewards', 'turn', 'state_id') else short)
  return types.Rollout(**{name: leaf(name) for name in types.Rollout.__dataclass_fields__})


class MeshTest(parameterized.TestCase):

  @parameterized.parameters((-1, 1, 4, 1), (-1, 2, 2, 2), (2, 1, 2, 1), (1, 4, 1, 4))
  def test_sizes(self, data, model, want_data, want_model):
    mesh = sharding.make_mesh(data, model)
    self.assertEqual(dict(mesh.shape), {'data': want_data, 'model': want_model})
    self.assertEqual(mesh.axis_types, (jax.sharding.AxisType.Auto,) * 2)

  @parameterized.parameters((8, 1, 'needs 8 devices, there are 4'), (0, 1, 'positive'),
                            (-1, 3, 'does not divide the 4 devices'), (1, 0, 'positive'))
  def test_errors(self, data, model, message):
    with self.assertRaisesRegex(ValueError, message):
      sharding.make_mesh(data, model)

  @parameterized.parameters((6, 1), (2, 1), (8, 4))
  def test_prompts_that_do_not_divide(self, prompts, minibatches):
    with self.assertRaisesRegex(ValueError, f'prompts={prompts} must be divisible by mesh data=4'):
      sharding.check_prompts(prompts, sharding.make_mesh(4), minibatches=minibatches)
    sharding.check_prompts(16, sharding.make_mesh(4), minibatches=4)


class StateTest(parameterized.TestCase):

  def test_largest_divisible_axis_over_data(self):
    got = specs(sharding.make_mesh(4), {'a': jnp.zeros((8, 12)), 'b': jnp.zeros((8, 13)),
                                        'odd': jnp.zeros((3, 5)), 'v': jnp.zeros(4)})
    self.assertEqual(got, {'a': jax.P(None, 'data'), 'b': jax.P('data', None), 'odd': jax.P(),
                           'v': jax.P('data')})

  def test_small_arrays_counters_and_keys_are_replicated(self):
    state = {'w': jnp.zeros((64, 64)), 'small': jnp.zeros((8, 8)), 'count': jnp.zeros(4096, int),
             'key': jax.random.split(jax.random.key(0), 4096), 'none': None, 's': jnp.zeros([])}
    got = jax.tree.map(lambda s: s.spec,
                       sharding.state_shardings(state, sharding.make_mesh(4)))
    self.assertEqual(got, {'w': jax.P('data', None), 'small': jax.P(), 'count': jax.P(),
                           'key': jax.P(), 'none': None, 's': jax.P()})

  def test_tensor_parallel_by_path(self):
    params = jax.eval_shape(transformer.policy(SHAPE).init, jax.random.key(0))
    got = specs(sharding.make_mesh(1, 4), params)
    column, row = {'kernel': jax.P(None, 'model')}, {'kernel': jax.P('model', None)}
    for layer in got['layers'].values():
      for name in ('query', 'key', 'value'):
        self.assertEqual(layer['attention'][name], column)
      self.assertEqual(layer['attention']['output'], row)
      self.assertEqual((layer['mlp']['gate'], layer['mlp']['up']), (column, column))
      self.assertEqual(layer['mlp']['down'], row)
    self.assertEqual((got['embed']['embedding'], got['head']), (row['kernel'], column))
    self.assertEqual(got['norm'], {'scale': jax.P()})
    stacked = jax.eval_shape(transformer.stack, params['layers'])
    got = specs(sharding.make_mesh(2, 2), {'layers': stacked})['layers']
    self.assertEqual(got['mlp']['up'], {'kernel': jax.P(None, 'data', 'model')})

  def test_moments_as_their_parameters(self):
    params = jax.eval_shape(transformer.policy(SHAPE).init, jax.random.key(0))
    opt_state = jax.eval_shape(optax.adam(1e-3).init, params)
    got = specs(sharding.make_mesh(2, 2), dict(params=params, opt_state=opt_state))
    self.assertEqual(got['params']['layers']['0']['mlp']['up'], {'kernel': jax.P('data', 'model')})
    self.assertEqual(got['params']['layers']['0']['mlp']['down'],
                     {'kernel': jax.P('model', 'data')})
    self.assertEqual(got['opt_state'][0].mu, got['params'])
    self.assertEqual(got['opt_state'][0].nu, got['params'])
    self.assertEqual(got['opt_state'][0].count, jax.P())

  def test_seeds_are_never_split(self):
    state = {'w': jnp.zeros((64, 8, 4)), 'step': jnp.zeros(64)}
    self.assertEqual(specs(sharding.make_mesh(4), state, seeds=True),
                     {'w': jax.P(None, 'data', None), 'step': jax.P()})

  def test_rollouts_by_prompt_wherever_they_are(self):
    mesh = sharding.make_mesh(4)
    got = sharding.rollout_shardings(rollout(8), mesh)
    self.assertEqual({s.spec for s in jax.tree.leaves(got)}, {jax.P('data')})
    state = {'waiting': rollout(8, 3, 16), 'none': None}  # 3 seeds, 16 slots
    got = sharding.state_shardings(state, mesh, seeds=True)['waiting']
    self.assertEqual({s.spec for s in jax.tree.leaves(got)}, {jax.P(None, None, 'data')})
    jax.device_put(state['waiting'], got)
    with self.assertRaisesRegex(ValueError, 'prompts=6'):
      sharding.rollout_shardings(rollout(6), mesh)

  @parameterized.parameters((4, 1), (2, 2))
  def test_a_sharded_step_gives_the_numbers_of_one_device(self, data, model):
    mesh = sharding.make_mesh(data, model)
    k1, k2, k3 = jax.random.split(jax.random.key(0), 3)
    mlp = {'up': {'kernel': jax.random.normal(k1, [16, 32])},
           'down': {'kernel': jax.random.normal(k2, [32, 16])}}
    params, x_PD = {'mlp': mlp}, jax.random.normal(k3, [8, 16])
    optimiser = optax.sgd(0.1, momentum=0.9)

    def step(state, x_PD):
      def loss(params):
        hidden = jnp.tanh(x_PD @ params['mlp']['up']['kernel'])
        return jnp.mean((hidden @ params['mlp']['down']['kernel'] - x_PD) ** 2)
      value, grads = jax.value_and_grad(loss)(state[0])
      updates, opt_state = optimiser.update(grads, state[1], state[0])
      return (optax.apply_updates(state[0], updates), opt_state), value

    state = params, optimiser.init(params)
    want_state, want = jax.jit(step)(state, x_PD)
    places = sharding.state_shardings(state, mesh, min_size=1)
    got_state, got = jax.jit(step, out_shardings=(places, None))(
        jax.device_put(state, places), jax.device_put(x_PD, sharding.over_prompts(mesh)))
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(got_state), jax.tree.leaves(want_state), strict=True):
      np.testing.assert_allclose(a, b, atol=1e-5)
    up = got_state[0]['mlp']['up']['kernel']
    self.assertLen(up.sharding.device_set, 4)
    self.assertEqual(up.addressable_data(0).size, up.size // 4)


if __name__ == '__main__':
  absltest.main()
