"""The decoder: one forward pass, its cache, its variants, against a plain NumPy reference."""

import dataclasses

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.models import attention
from grpo.models import blocks
from grpo.models import transformer
from tests import toy

P, N, LP, W = 2, 3, 4, 5


def _params(shape, seed=0):
  """Larger than at the start, so that logits differ between tokens."""
  params = jax.jit(transformer.policy(shape).init)(keys.root(seed))
  return jax.tree.map(lambda x: x * 2.0, params)


def _inputs(seed=1):
  tokens = jax.random.randint(keys.root(seed), (P, LP + N * W), 1, toy.VOCAB)
  valid = jnp.arange(LP)[None] >= jnp.array([[2], [0]])
  holes = jnp.array([[1, 1, 0, 1, 1], [1, 0, 0, 1, 1], [1, 1, 1, 1, 0]], bool)
  return (jnp.where(valid, tokens[:, :LP], 0), valid,
          jnp.where(holes[None], tokens[:, LP:].reshape(P, N, W), 0),
          jnp.broadcast_to(holes, (P, N, W)))


def _logits(policy, params, prompt, valid, tokens, holes):
  """[P,N,1+W,V]: after the prompt, and after each token of the rows."""
  prefix = policy.prefill(params, prompt, valid)
  hidden = policy.forward(params, prefix, tokens, holes)
  first = jnp.broadcast_to(prefix.last[:, None, None], (*hidden.shape[:2], 1, hidden.shape[-1]))
  return policy.logits(params, jnp.concatenate([first, hidden], axis=2))


def _reference(shape, params, tokens):
  """Logits [n,V] of one row without pads, float64, written from the formulas."""
  get = lambda tree: jax.tree.map(lambda x: np.asarray(x, np.float64), tree)
  params = get(params)
  norm = lambda x, p: x / np.sqrt((x * x).mean(-1, keepdims=True) + shape.norm_eps) * p['scale']
  n, d = len(tokens), shape.head_dim
  x = params['embed']['embedding'][np.asarray(tokens)]
  rate = shape.theta ** (-np.arange(0, d, 2) / d)
  turn = np.arange(n)[:, None] * rate
  def rotate(v):
    a, b = v[:, :d // 2], v[:, d // 2:]
    return np.concatenate([a * np.cos(turn) - b * np.sin(turn),
                           b * np.cos(turn) + a * np.sin(turn)], axis=1)
  for i in range(shape.layers):
    layer = params['layers'][str(i)]
    p, h = layer['attention'], norm(x, layer['attention']['norm'])
    out = []
    for head in range(shape.heads):
      group = head // (shape.heads // shape.kv_heads)
      part = lambda name, j, h=h, p=p: (h @ p[name]['kernel'])[:, j * d:(j + 1) * d]
      q, k, v = part('query', head), part('key', group), part('value', group)
      if shape.qk_norm:
        q, k = norm(q, p['query_norm']), norm(k, p['key_norm'])
      score = rotate(q) @ rotate(k).T / np.sqrt(d)
      score[np.triu_indices(n, 1)] = -np.inf
      weight = np.exp(score - score.max(-1, keepdims=True))
      out.append(weight / weight.sum(-1, keepdims=True) @ v)
    x = x + np.concatenate(out, axis=1) @ p['output']['kernel']
    p, h = layer['mlp'], norm(x, layer['mlp']['norm'])
    gate = h @ p['gate']['kernel']
    x = x + (gate / (1 + np.exp(-gate)) * (h @ p['up']['kernel'])) @ p['down']['kernel']
  x = norm(x, params['norm'])
  return x @ (params['embed']['embedding'].T if shape.tied else params['head']['kernel'])


class ForwardTest(parameterized.TestCase):

  @parameterized.parameters((True, True), (False, False))
  def test_equals_reference_whatever_the_pads(self, tied, qk_norm):
    shape = dataclasses.replace(toy.TINY, tied=tied, qk_norm=qk_norm)
    params, inputs = _params(shape), _inputs()
    got = jax.jit(lambda *x: _logits(transformer.policy(shape), *x))(params, *inputs)
    self.assertEqual(got.dtype, jnp.float32)
    prompt, valid, tokens, holes = (np.asarray(x) for x in inputs)
    for p in range(P):
      for n in range(N):
        row = [*prompt[p][valid[p]], *tokens[p, n][holes[p, n]]]
        want = _reference(shape, params, row)[valid[p].sum() - 1:]
        real = np.concatenate([[True], holes[p, n]])
        np.testing.assert_allclose(got[p, n][real], want, atol=2e-5, rtol=1e-5)

  def test_number_of_left_pads_changes_nothing(self):
    # Cases seen elsewhere: positions counted from the first slot, pads included.
    np.testing.assert_array_equal(
        attention.positions(jnp.array([[[0, 0, 1, 1, 1]]], bool), jnp.zeros((1, 1), int))[0, 0, 2:],
        [0, 1, 2])
    policy = transformer.policy(toy.TINY)
    params = _params(toy.TINY)
    prompt, _, tokens, holes = _inputs()
    run = jax.jit(lambda *x: _logits(policy, *x))
    want = run(params, prompt[1:], jnp.ones((1, LP), bool), tokens[1:], holes[1:])
    for pads in (1, 8, 100):
      wide = jnp.pad(prompt[1:], ((0, 0), (pads, 0)), constant_values=3)
      valid = jnp.pad(jnp.ones((1, LP), bool), ((0, 0), (pads, 0)))
      right = jnp.pad(tokens[1:], ((0, 0), (0, 0), (0, pads)), constant_values=5)
      closed = jnp.pad(holes[1:], ((0, 0), (0, 0), (0, pads)))
      got = run(params, wide, valid, right, closed)[:, :, :1 + W]
      real = jnp.pad(holes[1:], ((0, 0), (0, 0), (1, 0)), constant_values=True)
      np.testing.assert_allclose(got[real], want[real], atol=1e-5)

  def test_variants_agree(self):
    params, inputs = _params(toy.TINY), _inputs()
    weights = jax.random.normal(keys.root(5), (P, N, 1 + W, toy.VOCAB))

    def run(shape, params):
      loss = lambda p: jnp.sum(_logits(transformer.policy(shape), p, *inputs) * weights)
      return jax.jit(jax.value_and_grad(loss))(params)

    value, grads = run(toy.TINY, params)
    scale = max(float(jnp.max(jnp.abs(x))) for x in jax.tree.leaves(grads))
    close = lambda other: jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5 * scale), other, grads)
    again, other = run(dataclasses.replace(toy.TINY, remat=True), params)
    np.testing.assert_allclose(again, value, rtol=1e-5)
    close(other)
    stacked = params | {'layers': blocks.stack(params['layers'])}
    again, other = run(dataclasses.replace(toy.TINY, scan=True), stacked)
    np.testing.assert_allclose(again, value, rtol=1e-5)
    other = other | {'layers': blocks.unstack(other['layers'])}
    close(other)
    half = jax.jit(lambda p: _logits(
        transformer.policy(dataclasses.replace(toy.TINY, dtype='bfloat16')), p, *inputs))(params)
    full = jax.jit(lambda p: _logits(transformer.policy(toy.TINY), p, *inputs))(params)
    self.assertEqual(half.dtype, jnp.float32)
    np.testing.assert_allclose(half, full, atol=0.1)
    self.assertGreater(float(jnp.max(jnp.abs(half - full))), 0.0)

  @parameterized.parameters(False, True)
  def test_cache_equals_forward(self, scan):
    shape = dataclasses.replace(toy.TINY, scan=scan)
    policy, params, inputs = transformer.policy(shape), _params(shape), _inputs()
    want = jax.jit(lambda *x: _logits(policy, *x))(params, *inputs)
    prompt, valid, tokens, holes = inputs

    @jax.jit
    def step_by_step(params):
      prefix = policy.prefill(params, prompt, valid)
      cache = policy.start(params, prefix, N, 2)
      out = []
      # Two tokens at once, then a new block with one token, then two more.
      for low, high, room in ((0, 2, None), (2, 3, 4), (3, 5, None)):
        if room:
          cache = policy.start(params, prefix, N, room, cache)
        hidden, cache = policy.extend(params, prefix, cache, tokens[..., low:high],
                                      holes[..., low:high], jnp.int32(low))
        out.append(policy.logits(params, hidden))
      return jnp.concatenate(out, axis=2)

    np.testing.assert_allclose(step_by_step(params)[holes], want[:, :, 1:][holes], atol=1e-5)


class AttentionTest(absltest.TestCase):

  def test_long_rows_in_blocks_equal_one_square(self):
    width = 300  # three causal blocks
    draw = lambda i, *shape: jax.random.normal(keys.stream(keys.root(0), 'x', i), shape)
    queries, stored, values = draw(0, 1, 2, 2, 2, width, 4), draw(1, 1, 2, 2, width, 4), draw(
        2, 1, 2, 2, width, 4)
    valid = jax.random.bernoulli(keys.root(9), 0.9, (1, 2, width)).at[:, :, 0].set(True)
    prompt = attention.shared(draw(3, 1, 2, 4, 7), draw(4, 1, 2, 7, 4), jnp.ones((1, 7), bool))
    visible = jnp.tril(jnp.ones((width, width), bool))[None, None] & valid[:, :, None]
    weights = draw(5, *queries.shape)
    blocked = lambda q, k, v: jnp.sum(weights * attention.causal(q, k, v, valid, prompt))
    square = lambda q, k, v: jnp.sum(
        weights * attention.attend(q, [prompt, attention.own(k, v, visible)]))
    got = jax.jit(jax.grad(blocked, argnums=(0, 1, 2)))(queries, stored, values)
    want = jax.jit(jax.grad(square, argnums=(0, 1, 2)))(queries, stored, values)
    for a, b in zip(got, want, strict=True):
      np.testing.assert_allclose(a, b, atol=1e-5)

  def test_norm_is_per_head_and_groups_share_neighbouring_heads(self):
    # q = [3,4,6,8] as 2 heads: rms of [3,4] is 3.5355, of [6,8] 7.0711.
    norm = blocks.Norm(2, 0.0)
    got = norm(jnp.array([[3.0, 4.0], [6.0, 8.0]])).ravel()
    np.testing.assert_allclose(got, [0.8485, 1.1314, 0.8485, 1.1314], atol=1e-4)
    # 4 query heads over 2 key heads with values 1 and 2: heads 0, 1 read 1 and heads 2, 3 read 2.
    shape = transformer.Shape(layers=1, hidden=4, heads=4, kv_heads=2, head_dim=2, mlp=4, vocab=5)
    layer = blocks.Attention(shape, draw=jnp.ones)
    seen = {}

    def attend(queries, stored, values):
      values = jnp.broadcast_to(jnp.array([1.0, 2.0])[None, :, None, None, None], values.shape)
      visible = jnp.ones((1, 1, 1, 1), bool)
      seen['heads'] = attention.attend(queries, [attention.own(stored, values, visible)])
      return seen['heads'], None

    turns = attention.angles(jnp.zeros((1, 1, 1), int), 2, 1e4, 1)
    layer(jnp.ones((1, 1, 1, 4)), turns, attend)
    np.testing.assert_allclose(seen['heads'].reshape(4, 2)[:, 0], [1, 1, 2, 2])


class ParametersTest(absltest.TestCase):

  def test_plain_dict_with_named_paths_made_under_jit_and_vmap(self):
    policy = transformer.policy(dataclasses.replace(toy.TINY, tied=False))
    params = jax.jit(jax.vmap(lambda i: policy.init(keys.stream(keys.root(0), 'init', i))))(
        jnp.arange(2))
    paths = {jax.tree_util.keystr(path, simple=True, separator='/')
             for path, _ in jax.tree_util.tree_leaves_with_path(params)}
    self.assertIn('layers/0/attention/query/kernel', paths)
    self.assertIn('layers/1/mlp/down/kernel', paths)
    self.assertContainsSubset(
        {'embed/embedding', 'norm/scale', 'head/kernel', 'layers/0/attention/query_norm/scale'},
        paths)
    table = params['embed']['embedding']
    self.assertGreater(float(jnp.max(jnp.abs(table[0] - table[1]))), 0.01)

  def test_flops_formula(self):
    # One layer: attention 16*(24+24+12+12) = 1152 weights, mlp 3*16*24 = 1152; head 16*11 = 176.
    # 7 tokens read, 5 of them scored, mean span 4: 2*2*(2304 + 2*24*4)*7 + 2*176*5.
    flops = transformer.policy(toy.TINY).flops(2, 5, 4)
    self.assertEqual(flops, 2 * 2 * (2304 + 192) * 7 + 2 * 176 * 5)

  def test_bad_shapes_are_refused(self):
    for change in (dict(kv_heads=3), dict(head_dim=5), dict(dtype='float16')):
      with self.assertRaises(ValueError):
        dataclasses.replace(toy.TINY, **change)


class CriticTest(absltest.TestCase):

  def test_values_do_not_see_their_own_token(self):
    critic = transformer.critic(toy.TINY)
    params = jax.jit(critic.init)(keys.root(0))
    prompt, valid, tokens, holes = _inputs()
    holes = jnp.ones_like(holes)
    run = jax.jit(critic.states)
    np.testing.assert_array_equal(run(params, prompt, valid, tokens, holes), 0.0)
    params['value']['kernel'] = jax.random.normal(keys.root(2), params['value']['kernel'].shape)
    before = run(params, prompt, valid, tokens, holes)
    changed = tokens.at[0, 0, 2].set(tokens[0, 0, 2] % 10 + 1)
    after = run(params, prompt, valid, changed, holes)
    np.testing.assert_allclose(after[0, 0, :3], before[0, 0, :3], atol=1e-6)
    self.assertTrue(np.all(np.abs(after[0, 0, 3:] - before[0, 0, 3:]) > 1e-4))
    np.testing.assert_allclose(after[1], before[1], atol=1e-6)

  def test_graft_takes_the_trunk_and_keeps_the_head(self):
    critic, policy = transformer.critic(toy.TINY), transformer.policy(toy.TINY)
    params = jax.jit(critic.init)(keys.root(0))
    params['value']['bias'] = jnp.ones((1,))
    other = jax.jit(policy.init)(keys.root(1))
    grafted = critic.graft(params, other)
    self.assertEqual(jax.tree.structure(grafted), jax.tree.structure(params))
    np.testing.assert_array_equal(grafted['embed']['embedding'], other['embed']['embedding'])
    np.testing.assert_array_equal(grafted['value']['bias'], 1.0)


if __name__ == '__main__':
  absltest.main()
