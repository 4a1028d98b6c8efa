"""Reductions under a mask against NumPy in float64, with junk off the mask."""

from absl.testing import absltest
from absl.testing import parameterized
import hypothesis
from hypothesis import strategies as st
import jax
import jax.numpy as jnp
import numpy as np

from grpo import masked

SHAPE = (3, 5)
ROWS = ('mean', 'var', 'std', 'low', 'high', 'total')


@jax.jit
def _all(x, mask):
  out = {name: getattr(masked, name)(x, mask, axis=1) for name in ROWS}
  return out | dict(suffix=masked.suffix_sum(x, mask), last=masked.last_index(mask),
                    count=masked.count(mask, axis=1), running=masked.running_count(mask))


def _slow(x, mask):
  row = {
      'mean': lambda r: r.mean() if r.size else 0.0,
      'var': lambda r: r.var(ddof=1) if r.size > 1 else 0.0,
      'std': lambda r: r.std(ddof=1) if r.size > 1 else 0.0,
      'low': lambda r: r.min(initial=np.inf) if r.size else 0.0,
      'high': lambda r: r.max(initial=-np.inf) if r.size else 0.0,
      'total': lambda r: r.sum(),
  }
  out = {name: [f(a[m]) for a, m in zip(x, mask)] for name, f in row.items()}
  kept = np.where(mask, x, 0.0)
  return out | dict(
      suffix=kept[:, ::-1].cumsum(axis=1)[:, ::-1], count=mask.sum(axis=1),
      running=mask.cumsum(axis=1),
      last=[max(np.flatnonzero(m), default=-1) for m in mask])


class MaskedTest(parameterized.TestCase):

  @hypothesis.given(st.integers(0, 2 ** 31), st.floats(0, 1), st.sampled_from([np.nan, np.inf, 7]))
  @hypothesis.settings(deadline=None, max_examples=50)
  def test_against_numpy(self, seed, share, junk):
    rng = np.random.default_rng(seed)
    mask = rng.random(SHAPE) < share
    x = rng.normal(size=SHAPE).astype(np.float32)
    got = _all(np.where(mask, x, np.float32(junk)), mask)
    want = _slow(x.astype(float), mask)
    for name, value in got.items():
      np.testing.assert_allclose(value, want[name], atol=1e-5, err_msg=name)

  @parameterized.parameters(1, 64, 128, 129, 1000, 20_000)
  def test_running_count_is_exact(self, length):
    mask = np.random.default_rng(length).random((2, length)) < 0.7
    got = masked.running_count(mask)
    self.assertEqual(got.dtype, jnp.int32)
    np.testing.assert_array_equal(got, mask.cumsum(axis=1))

  def test_nothing_on_the_mask_has_no_gradient(self):
    mask = np.zeros(SHAPE, bool)
    for name in ROWS:
      reduce = getattr(masked, name)
      grads = jax.grad(lambda x, f=reduce: jnp.sum(f(x, mask, axis=1)))(
          np.full(SHAPE, np.nan, np.float32))
      np.testing.assert_array_equal(grads, 0.0, err_msg=name)


if __name__ == '__main__':
  absltest.main()
