"""How learning rates fall: by hand, against a loop, and through an optimiser that was stopped."""

import math

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from configs import base
from grpo import build
from grpo import decays


def made(name, **fields):
  """Parts of a run of 10 steps, 4 updates each, 8 of them warm-up, at a rate of 0.5."""
  c = base.get_config('smoke')
  c.model = base.slot('tabular')
  c.steps, c.train.epochs, c.train.minibatches, c.train.warmup = 10, 2, 2, 8
  c.train.learning_rate = 0.5
  if fields.pop('critic', 0):
    c.method.critic = base.value_critic(updates=3, learning_rate=0.5)
  return build.parts(build.plain(c, {'train.decay': dict(name=name, **fields)}))


def rates(optimiser, count):
  """Learning rates of the first updates, as an optimiser uses them.

  With gradients that are always the same number, Adam's step is the rate, up to eps and rounding.
  """
  params = jnp.zeros(())

  def body(state, _):
    updates, state = optimiser.update(jnp.ones(()), state, params)
    return state, -updates

  return jax.lax.scan(body, optimiser.init(params), length=count)[1]


def expected(name, length, warmup, floor, count, start=None):
  """The same by a loop."""
  start, out = warmup if start is None else start, []
  for n in range(count):
    rate = 0.5 * min(1.0, (n + 1) / warmup)
    done = min(1.0, max(0.0, (n - start) / (length - start)))
    share = {'constant': 1.0, 'linear': 1 - (1 - floor) * done,
             'cosine': floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2}[name]
    out.append(rate * share)
  return out


class DecaysTest(parameterized.TestCase):

  def test_by_hand(self):
    # From 2 to 10 updates, floor 0.2. Update 4 is a quarter on: linear 1 - 0.8 / 4 = 0.8; cosine
    # 0.2 + 0.8 (1 + 0.70711) / 2 = 0.88284. Half-way both are 0.6. From 10 on both are 0.2.
    how = dict(length=10, start=2, floor=0.2)
    count = jnp.array([0, 2, 4, 6, 10, 99])
    np.testing.assert_allclose(decays.linear(1.0, count, **how), [1, 1, 0.8, 0.6, 0.2, 0.2],
                               rtol=1e-6)
    np.testing.assert_allclose(decays.cosine(1.0, count, **how), [1, 1, 0.88284, 0.6, 0.2, 0.2],
                               rtol=1e-5)

  @parameterized.parameters(
      ('constant', {}, 0.0), ('linear', {}, 0.0), ('cosine', {}, 0.1),
      ('cosine', {'floor': 0.0}, 0.0),
      ('linear', {'length': 20, 'start': 12}, 0.0))
  def test_an_optimiser_uses_them(self, name, fields, floor):
    got = rates(made(name, **fields).optimiser, 44)
    want = expected(name, fields.get('length', 40), 8, floor, 44, fields.get('start'))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-7)

  def test_a_critic_has_its_own_number_of_updates(self):
    parts = made('linear', critic=1)
    np.testing.assert_allclose(rates(parts.critic_optimiser, 64),
                               expected('linear', 60, 8, 0.0, 64), rtol=1e-4, atol=1e-7)

  def test_constant_is_the_program_without_a_decay(self):
    rate = jnp.float32(0.3)
    self.assertIs(decays.constant(rate, jnp.int32(7)), rate)


if __name__ == '__main__':
  absltest.main()
