"""Tests of writes that stay writes under vmap."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import writes

BUFFER = jnp.arange(2.0 * 3 * 5).reshape(2, 3, 5)
X = -jnp.ones((2, 3, 2))


class WritesTest(parameterized.TestCase):

  @parameterized.parameters((0, slice(0, 2)), (3, slice(3, 5)), (9, slice(3, 5)), (-1, slice(3, 5)))
  def test_put(self, index, place):
    want = np.array(BUFFER)
    want[:, :, place] = -1
    got = jax.jit(lambda i: writes.put(BUFFER, X, 0, 0, i))(index)
    if index >= 0:
      np.testing.assert_array_equal(got, want)
    over = jax.vmap(lambda b, x: writes.put(b, x, 0, index))(BUFFER, X)
    np.testing.assert_array_equal(over, writes.put(BUFFER, X, 0, 0, index))

  @parameterized.product(buffer=(True, False), x=(True, False), index=(True, False))
  def test_any_argument_may_be_mapped_twice(self, buffer, x, index):
    flags = [0 if f else None for f in (buffer, x, index)]
    if not any((buffer, x, index)):
      return
    rows = [jnp.stack([BUFFER[0], BUFFER[1]]), X, jnp.asarray([1, 2])]
    args = [r if f else r[0] for r, f in zip(rows, (buffer, x, index), strict=True)]
    inner = lambda b, x, i: writes.put(b, x, 0, i)
    got = jax.vmap(inner, in_axes=flags)(*args)
    for i in range(2):
      one = [r[i] if f else r[0] for r, f in zip(rows, (buffer, x, index), strict=True)]
      np.testing.assert_array_equal(got[i], inner(*one))
    wide = [jnp.stack([a, a]) if f else a for a, f in zip(args, (buffer, x, index), strict=True)]
    twice = jax.vmap(jax.vmap(inner, in_axes=flags), in_axes=flags)(*wide)
    np.testing.assert_array_equal(twice, jnp.stack([got, got]))

  def test_put_at_keeps_the_type(self):
    got = writes.put_at(jnp.zeros((4, 2), jnp.int32), jnp.ones(2, bool), 2)
    self.assertEqual(got.dtype, jnp.int32)
    np.testing.assert_array_equal(got, [[0, 0], [0, 0], [1, 1], [0, 0]])

  def test_a_loop_over_seeds_scatters_nothing(self):
    def run(x):
      def body(carry):
        i, buffer = carry
        return i + 1, writes.put_at(buffer, buffer[0] + x, i)
      return jax.lax.while_loop(lambda c: c[0] < 4, body, (jnp.int32(0), jnp.zeros((4, 2))))[1]

    text = str(jax.make_jaxpr(jax.vmap(run))(jnp.ones((3, 2))))
    self.assertNotIn('scatter', text)
    self.assertIn('dynamic_update_slice', text)


if __name__ == '__main__':
  absltest.main()
