"""Log-probabilities: temperature, chunks, alignment, and the prompt read once or per row."""

import dataclasses

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo import types
from grpo.models import scoring
from grpo.models import tabular
from grpo.models import transformer
from grpo.rollout import choose
from tests import toy

SHAPE = dataclasses.replace(toy.TINY, layers=1)
LAYOUT = types.Layout(prompt=4, action=2, observation=1, turns=2, segments=2, carry=1)


def make_rollout(P=2, G=2, seed=0):
  """Random windows that keep the promises of a layout: real tokens before every action."""
  S, L = LAYOUT.segments, LAYOUT.length
  tokens = jax.random.randint(keys.root(seed), (P, G, S, L), 1, toy.VOCAB)
  tokens = tokens.at[..., :LAYOUT.prompt].set(tokens[:, :1, :1, :LAYOUT.prompt])
  valid = jnp.ones((P, G, S, L), bool).at[0, ..., :2].set(False)
  valid = valid.at[:, 0, :, LAYOUT.prompt + 1].set(False)  # this action stopped at its first token
  action = np.zeros(L, bool)
  action[list(LAYOUT.action_slots)] = True
  first = np.arange(S)[:, None] == 0
  mask = valid & (action & (first | (np.arange(L) >= LAYOUT.prompt + LAYOUT.turn)))[None, None]
  zeros = jnp.zeros((P, G, S, L))
  flags = jnp.zeros((P, G), bool)
  ints = jnp.zeros((P, G), jnp.int32)
  return types.Rollout(
      tokens=jnp.where(valid, tokens, 0), valid=valid, mask=mask, logp=zeros, rewards=zeros,
      turn=jnp.where(mask, 0, -1), state_id=zeros.astype(jnp.uint32), success=zeros[:, :, 0, 0],
      terminated=~flags, truncated=flags, version=ints, prompt_id=ints, sample_id=ints)


class TokenTest(parameterized.TestCase):

  def test_temperature_divides_the_logits(self):
    # logits [2,0], T = 0.5: log-probs of [4,0] are -0.018150 and -4.018150.
    logits = jnp.array([[2.0, 0.0], [2.0, 0.0]])
    got = scoring.token_logp(logits, jnp.array([0, 1]), 0.5)
    np.testing.assert_allclose(got, [-0.018150, -4.018150], atol=1e-6)
    got = scoring.token_logp(logits, jnp.array([0, 1]), 1.0)
    np.testing.assert_allclose(got, [-0.126928, -2.126928], atol=1e-6)
    p = np.exp([-0.018150, -4.018150])
    np.testing.assert_allclose(scoring.entropy(logits, 0.5), -(p * np.log(p)).sum(), atol=1e-5)

  def test_dropped_tokens_give_finite_entropy(self):
    logits = jnp.array([0.0, 0.0, -jnp.inf])
    np.testing.assert_allclose(scoring.entropy(logits, 1.0), np.log(2), rtol=1e-6)
    self.assertEqual(float(scoring.token_logp(logits, jnp.array(2), 1.0)), -np.inf)

  @parameterized.parameters(
      (choose.top_p(0.9), [0, 1, 2], 0.95), (choose.top_k(2), [0, 1], 0.8),
      (choose.top_p(0.5), [0], 0.5), (choose.greedy, [0], 0.5), (choose.top_p(1.0), range(4), 1.0))
  def test_truncation_renormalises_over_the_kept(self, keep, kept, mass):
    logits = jnp.log(jnp.array([0.5, 0.3, 0.15, 0.05]))
    uniforms = jnp.linspace(0.0, 1.0, 41)[:-1]
    tokens, logp = choose.draw(jnp.broadcast_to(logits, (40, 4)), uniforms, 1.0, keep)
    self.assertContainsSubset(set(kept), set(np.asarray(tokens)))
    self.assertEqual(set(kept), set(np.asarray(tokens)))
    want = np.asarray(logits)[np.asarray(tokens)] - np.log(mass)
    np.testing.assert_allclose(logp, want, atol=1e-6)

  def test_draw_inverts_the_distribution(self):
    p = jnp.array([0.0, 0.25, 0.0, 0.75, 0.0])
    uniforms = jnp.array([0.0, 0.2499, 0.2501, 0.9999999])
    tokens, logp = choose.draw(jnp.broadcast_to(jnp.log(p), (4, 5)), uniforms, 1.0)
    np.testing.assert_array_equal(tokens, [1, 1, 3, 3])
    np.testing.assert_allclose(logp, np.log([0.25, 0.25, 0.75, 0.75]), atol=1e-6)
    uniforms = (jnp.arange(4000) + 0.5) / 4000
    tokens, _ = choose.draw(jnp.broadcast_to(2 * jnp.log(p), (4000, 5)), uniforms, 2.0)
    np.testing.assert_allclose(np.bincount(tokens, minlength=5) / 4000, p, atol=1e-3)


class ScoreTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.policy = transformer.policy(SHAPE)
    self.params = jax.tree.map(lambda x: 2 * x, jax.jit(self.policy.init)(keys.root(0)))
    self.rollout = make_rollout()
    self.weights = jax.random.normal(keys.root(7), self.rollout.mask.shape)

  def _grads(self, function):
    def loss(params):
      logp = function(params)
      return jnp.sum(logp * self.weights), logp
    (_, logp), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(self.params)
    return logp, grads

  def _close(self, grads, want):
    scale = max(float(jnp.max(jnp.abs(x))) for x in jax.tree.leaves(want))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4 * scale), grads, want)

  def test_sharing_the_prompt_and_chunks_change_nothing(self):
    score = lambda chunk: lambda p: scoring.logps(
        self.policy, p, self.rollout, LAYOUT, 0.7, chunk=chunk)
    logp, grads = self._grads(score(None))
    np.testing.assert_array_equal(logp[~self.rollout.mask], 0.0)
    other, more = self._grads(lambda p: scoring.logps_unshared(
        self.policy, p, self.rollout, LAYOUT, 0.7))
    np.testing.assert_allclose(other, logp, atol=1e-5)
    self._close(more, grads)
    for chunk in (3,):
      other, more = self._grads(score(chunk))
      np.testing.assert_allclose(other, logp, atol=1e-6)
      self._close(more, grads)

  def test_a_row_alone_equals_the_row_in_a_batch(self):
    score = jax.jit(lambda p, r: scoring.score(self.policy, p, r, LAYOUT, 1.0))
    logp, entropy = score(self.params, self.rollout)
    alone = jax.tree.map(lambda x: x[1:, :1], self.rollout)
    got = score(self.params, alone)
    np.testing.assert_allclose(got[0], logp[1:, :1], atol=1e-5)
    np.testing.assert_allclose(got[1], entropy[1:, :1], atol=1e-5)
    self.assertTrue(bool(jnp.all(entropy[self.rollout.mask] > 0)))

  def test_nothing_to_learn_is_no_gradient(self):
    self.weights = jnp.zeros_like(self.weights)
    _, grads = self._grads(lambda p: scoring.logps(self.policy, p, self.rollout, LAYOUT, 1.0))
    for leaf in jax.tree.leaves(grads):
      np.testing.assert_array_equal(leaf, 0.0)

  def test_memory_follows_the_chunk_not_the_vocabulary_times_length(self):
    vocab, steps = 4096, 64
    policy = transformer.policy(dataclasses.replace(toy.TINY, layers=1, vocab=vocab))
    layout = types.Layout(prompt=4, action=steps, observation=0, turns=1)
    shape = jax.ShapeDtypeStruct((2, 2, 1, layout.length), jnp.int32)
    rows = scoring.Rows(shape, shape.update(dtype=bool), shape.update(dtype=bool))
    params = jax.eval_shape(policy.init, keys.root(0))

    def temporary(chunk):
      loss = lambda p, r: jnp.sum(scoring.logps(policy, p, r, layout, 1.0, chunk=chunk))
      return jax.jit(jax.grad(loss)).lower(params, rows).compile().memory_analysis(
          ).temp_size_in_bytes

    whole = 4 * steps * vocab * 4  # one float32 [B,T,V]
    self.assertGreater(temporary(steps), whole)
    self.assertLess(temporary(4), whole / 2)

  def test_table_by_hand_and_a_shift_would_show(self):
    # The table says: after `a` real tokens ending in x, the next is (a + x) % V almost surely.
    policy = tabular.policy(toy.VOCAB, 12)
    place, last = np.meshgrid(np.arange(12), np.arange(toy.VOCAB), indexing='ij')
    table = 20.0 * jax.nn.one_hot((place + 1 + last) % toy.VOCAB, toy.VOCAB)
    rows = dict(tokens=np.zeros((1, 1, 1, 6), np.int32), valid=np.ones((1, 1, 1, 6), bool))
    rows['tokens'][0, 0, 0, :2] = 3, 4
    rows['valid'][..., 0] = False  # one real prompt token, 4
    layout = types.Layout(prompt=2, action=4, observation=0, turns=1)
    tokens, count = 4, 1
    for slot in range(2, 6):
      tokens = (count + tokens) % toy.VOCAB
      rows['tokens'][0, 0, 0, slot] = tokens
      count += 1
    mask = jnp.arange(6)[None, None, None] >= 2
    logp = scoring.logps(policy, {'table': table},
                         scoring.Rows(jnp.asarray(rows['tokens']), jnp.asarray(rows['valid']),
                                      mask), layout, 1.0)
    np.testing.assert_allclose(logp, 0.0, atol=1e-6)
    shifted = scoring.Rows(jnp.asarray(rows['tokens']).at[..., 2:].set(rows['tokens'][..., 1:-1]),
                           jnp.asarray(rows['valid']), mask)
    self.assertLess(float(jnp.max(scoring.logps(policy, {'table': table}, shifted, layout,
                                                1.0)[..., 2:])), -10)

  def test_values_come_before_their_token(self):
    critic = tabular.critic(toy.VOCAB, 20)
    params = {'table': jnp.arange(20.0)[:, None] + jnp.zeros((1, toy.VOCAB))}  # V = real - 1
    rollout = self.rollout
    real = jnp.cumsum(rollout.valid, axis=-1) - rollout.valid  # real tokens before each
    want = jnp.where(rollout.mask, real - 1.0, 0.0)
    np.testing.assert_array_equal(scoring.values(critic, params, rollout, LAYOUT), want)
    total = rollout.valid[:, :, -1].sum(-1) - 1.0
    last = scoring.values_and_last(critic, params, rollout, LAYOUT)[1]
    np.testing.assert_array_equal(last, total)
    # An episode that ended in window 0 is bootstrapped there.
    short = dataclasses.replace(
        rollout, mask=rollout.mask.at[0, 0, 1].set(False),
        valid=rollout.valid.at[0, 0, 1].set(False).at[0, 0, 0, -3:].set(False))
    got = scoring.values_and_last(critic, params, short, LAYOUT)[1]
    self.assertEqual(float(got[0, 0]), float(short.valid[0, 0, 0].sum()) - 1)

  def test_wrong_layout_is_refused(self):
    with self.assertRaisesRegex(ValueError, 'positions'):
      scoring.score(self.policy, self.params, self.rollout,
                    dataclasses.replace(LAYOUT, turns=3), 1.0)


if __name__ == '__main__':
  absltest.main()
