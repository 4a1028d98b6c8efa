"""Scores by blocks of the vocabulary: those of whole logits, and never as large as they."""

import dataclasses
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import jax
from jax.extend import core
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.models import adapters
from grpo.models import scoring
from grpo.models import transformer
from grpo.models import vocabulary
from tests import scoring_test
from tests import toy

ROWS, WIDTH, VOCAB, TEMPERATURE = 12, 6, 70, 0.7


def inputs(dtype):
  """Hidden states, a table, tokens (the first and the last of the vocabulary too), weights."""
  stream = np.random.RandomState(0)
  tokens = stream.randint(0, VOCAB, ROWS)
  tokens[:2] = 0, VOCAB - 1
  return (jnp.asarray(3 * stream.standard_normal((ROWS, WIDTH)), dtype),
          jnp.asarray(2 * stream.standard_normal((VOCAB, WIDTH)), dtype), jnp.asarray(tokens),
          jnp.asarray(stream.standard_normal((2, ROWS)), dtype))


def by_blocks(block):
  return lambda hidden, table, tokens: vocabulary.scores(
      hidden, table, tokens, TEMPERATURE, block=block)


def exactly(hidden, table, tokens):
  """The same with all logits, in the type of the states."""
  logp = jax.nn.log_softmax(hidden @ table.T / TEMPERATURE)
  picked = jnp.take_along_axis(logp, tokens[:, None], axis=1)[:, 0]
  return picked, -jnp.sum(jnp.exp(logp) * logp, axis=1)


def judged(scores):
  """Values and gradients of a sum of both outputs under random weights."""
  def loss(hidden, table, tokens, weights):
    out = scores(hidden, table, tokens)
    return jnp.sum(weights[0] * out[0] + weights[1] * out[1]), out
  return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)


def arrays(jaxpr):
  """Shapes of all intermediate arrays, those of inner programs too."""
  for equation in jaxpr.eqns:
    for var in equation.outvars:
      yield getattr(var.aval, 'shape', ())
    for inner in core.jaxprs_in_params(equation.params):
      yield from arrays(inner)


class BlocksTest(parameterized.TestCase):

  @parameterized.parameters((16, jnp.float32), (35, jnp.float64), (999, jnp.float64),
                            (16, jnp.float64))
  def test_values_and_gradients_are_those_of_whole_logits(self, block, dtype):
    # Blocks that do not divide the vocabulary, that do, and one that holds all of it.
    with jax.enable_x64(True):
      data = inputs(jnp.float64)
      (_, want), want_grads = jax.jit(judged(exactly))(*data)
      (_, got), grads = jax.jit(judged(by_blocks(block)))(*inputs(dtype))
      of_values, of_grads = (1e-5, 1e-4) if dtype == jnp.float32 else (1e-10, 1e-10)
      for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=of_values * np.abs(b).max(), rtol=0)
      for a, b in zip(grads, want_grads, strict=True):
        np.testing.assert_allclose(a, b, atol=of_grads * np.abs(b).max(), rtol=0)

  def test_nothing_is_as_large_as_the_logits(self):
    block, table = 16, (VOCAB, WIDTH)
    for scores, expected in ((by_blocks(block), False), (exactly, True)):
      shapes = set(arrays(jax.make_jaxpr(judged(scores))(*inputs(jnp.float32)).jaxpr))
      whole = {s for s in shapes if VOCAB in s and s not in (table, table[::-1])}
      self.assertEqual(bool(whole), expected, whole)
    self.assertIn((ROWS, WIDTH), shapes)

  def test_bfloat16_products(self):
    hidden, table, tokens, _ = inputs(jnp.float32)
    half = hidden.astype(jnp.bfloat16)
    got = by_blocks(16)(half, table, tokens)
    want = exactly(half.astype(jnp.float32), table.astype(jnp.bfloat16).astype(jnp.float32), tokens)
    for a, b in zip(got, want, strict=True):
      self.assertEqual(a.dtype, jnp.float32)
      np.testing.assert_allclose(a, b, atol=2e-5, rtol=1e-5)


class ScoringTest(parameterized.TestCase):

  @parameterized.parameters('tied', 'apart', 'adapters')
  def test_a_policy_scores_the_same_either_way(self, kind):
    shape = dataclasses.replace(toy.TINY, layers=1, tied=kind != 'apart')
    policy = transformer.policy(shape)
    params = jax.tree.map(lambda x: 2 * x, jax.jit(policy.init)(keys.root(0)))
    if kind == 'adapters':
      policy = adapters.policy(dataclasses.replace(shape, rank=2), params)
      params = jax.tree.map(lambda x: x + 0.1, jax.jit(policy.init)(keys.root(1)))
    rollout = scoring_test.make_rollout()

    def loss(params):
      logp, entropy = scoring.score(policy, params, rollout, scoring_test.LAYOUT, 0.7)
      return jnp.sum(logp * jnp.cos(jnp.arange(logp.size).reshape(logp.shape)) + entropy), (
          logp, entropy)

    run = lambda: jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    (_, want), want_grads = run()
    with mock.patch.object(scoring, '_LARGE', 2), mock.patch.object(scoring, '_BLOCK', (1, 5)):
      (_, got), grads = run()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), got, want)
    most = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(want_grads))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4 * most), grads,
                 want_grads)


if __name__ == '__main__':
  absltest.main()
