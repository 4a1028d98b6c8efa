"""Windows with summaries: what is sampled is what is trained, and copies change nothing."""

import dataclasses
import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.models import scoring
from grpo.models import tabular
from grpo.models import transformer
from grpo.objective import chunks
from grpo.objective import gae
from grpo.objective import returns
from grpo.rollout import compaction
from grpo.rollout import sampler
from tests import rollouts
from tests import toy

TASK = compaction.speaks(toy.chatter(turns=20))
OPENS, CLOSES = TASK.note_ids
VOCAB = toy.VOCAB + 2
LAYOUT = dataclasses.replace(toy.layout(TASK, turns=2, segments=3, carry=2), summary=4)
HEAT = 0.7
PARTS = ('tokens', 'valid', 'mask', 'logp', 'rewards', 'turn', 'state_id')


def play(policy, params, key, *, end_share=0.15, layout=LAYOUT, **kwargs):
  return sampler.sample(policy, params, TASK, layout, dict(end_share=end_share), key, step=3,
                        prompts=3, samples=4, temperature=HEAT, **kwargs)


@functools.cache
def decoder():
  """A transformer, and (params, key, forget, learn) -> rollout, recomputed logp, values."""
  shape = dataclasses.replace(toy.TINY, layers=1, vocab=VOCAB)
  policy, critic = transformer.policy(shape), transformer.critic(shape)
  params = jax.tree.map(lambda x: 2 * x, jax.jit(policy.init)(keys.root(0)))

  @jax.jit
  def run(forget, learn):
    rollout = play(policy, params, keys.root(1), forget=forget, learn=learn)
    return rollout, scoring.logps(policy, params, rollout, LAYOUT, HEAT)

  return policy, critic, params, run


def fields(rollout):
  return {name: np.asarray(getattr(rollout, name)) for name in PARTS}


def table(seed=0):
  """Logits that know how many tokens came and the last of them; half of the summaries are cut."""
  x = np.random.default_rng(seed).normal(size=(64, VOCAB, VOCAB))
  x[..., CLOSES] -= 1.0
  return x


class SampledTest(parameterized.TestCase):

  @parameterized.parameters((0, 1), (1, 1), (0, 0))
  def test_recomputed_log_probabilities_are_those_sampled(self, forget, learn):
    *_, run = decoder()
    rollout, logp = run(forget, learn)
    self.assertLess(float(jnp.max(jnp.abs(logp - rollout.logp))), 1e-5)
    self.assertGreater(float(jnp.std(rollout.logp[rollout.mask])), 0.1)
    self.check_record(fields(rollout), forget, learn)

  def test_every_log_probability_by_hand(self):
    # A policy that is a table: float64, from the tokens alone, in the order of the window.
    logits = table()
    policy = tabular.policy(VOCAB, 64)
    rollout = fields(jax.jit(lambda: play(policy, {'table': jnp.asarray(logits, 'f')},
                                          keys.root(1)))())
    self.check_record(rollout, 0, 1)
    count = 0
    for place in np.ndindex(rollout['tokens'].shape[:3]):
      valid, tokens, mask = (rollout[name][place] for name in ('valid', 'tokens', 'mask'))
      for t in np.flatnonzero(mask):
        before = np.flatnonzero(valid[:t])
        scaled = logits[len(before) - 1, tokens[before[-1]]] / HEAT
        want = scaled[tokens[t]] - np.log(np.sum(np.exp(scaled)))
        self.assertAlmostEqual(rollout['logp'][place][t], want, delta=2e-5)
        count += 1
    self.assertEqual(count, rollout['mask'].sum())

  def check_record(self, r, forget, learn):
    L, note, carry = LAYOUT.length, LAYOUT.note, LAYOUT.carry * LAYOUT.turn
    lead, high = LAYOUT.prompt, LAYOUT.length - LAYOUT.note
    self.assertEqual(r['tokens'].shape, (3, 4, 3, L))
    off = ~r['mask']
    for name, rest in (('logp', 0), ('rewards', 0), ('turn', -1), ('state_id', 0)):
      np.testing.assert_array_equal(r[name][off], rest, err_msg=name)
    np.testing.assert_array_equal(r['tokens'][~r['valid']], 0)
    self.assertTrue(np.all(r['valid'][r['mask']]))
    self.assertFalse(r['valid'][:, :, 0, lead:lead + note].any())   # window 0 has no copy
    self.assertFalse(r['valid'][:, :, -1, high:].any())             # nobody would read the last
    ends, cut = 0, 0
    for p, g, s in np.ndindex(3, 4, 3):
      w = {name: x[p, g, s] for name, x in r.items()}
      words = w['tokens'][high:][w['valid'][high:]]
      goes_on = s < 2 and r['valid'][p, g, s + 1].any()
      self.assertEqual(len(words) > 0, goes_on)
      if not goes_on:
        continue
      # The word that asks, then at least one token; `end` only as the last one.
      self.assertEqual(words[0], OPENS)
      self.assertFalse(w['mask'][high])
      self.assertIn(len(words), range(2, note + 1))
      self.assertNotIn(CLOSES, words[1:-1])
      ended = words[-1] == CLOSES
      self.assertTrue(ended or len(words) == note)
      ends, cut = ends + ended, cut + (not ended)
      written = w['valid'][high + 1:]
      np.testing.assert_array_equal(w['mask'][high + 1:], written & bool(learn))
      np.testing.assert_array_equal(w['rewards'][high:], 0)
      # The next window: the prompt, the whole note, the last turns; none of it is trained again.
      after = {name: x[p, g, s + 1] for name, x in r.items()}
      fresh = lead + note + carry
      self.assertFalse(after['mask'][:fresh].any())
      lost = forget * LAYOUT.turn
      for name in ('tokens', 'valid'):
        np.testing.assert_array_equal(after[name][:lead], r[name][p, g, 0, :lead])
        np.testing.assert_array_equal(after[name][lead:lead + note], w[name][high:])
        np.testing.assert_array_equal(after[name][lead + note + lost:fresh],
                                      w[name][high - carry + lost:high])
      self.assertFalse(after['valid'][lead + note:lead + note + lost].any())
      # It belongs to the turn that comes next, and starts from the same state.
      nxt = np.flatnonzero(after['mask'])[0]
      if learn:
        self.assertEqual(set(w['turn'][high + 1:][written]), {after['turn'][nxt]})
        self.assertEqual(set(w['state_id'][high + 1:][written]), {after['state_id'][nxt]})
      self.assertEqual(after['turn'][nxt], LAYOUT.carry + (s + 1) * LAYOUT.turns)
    self.assertGreater(ends, 0)
    self.assertGreater(cut, 0)
    for p, g in np.ndindex(3, 4):
      self.assertTrue(np.all(np.diff(r['turn'][p, g][r['mask'][p, g]]) >= 0))
    over = ~r['valid'].any(-1)
    self.assertTrue(over.any())                                     # some episodes end early
    self.assertFalse(over.all(axis=(0, 1)).any())                   # and some do not

  def test_untrained_summaries_are_the_same_words_off_the_mask(self):
    *_, run = decoder()
    (taught, _), (untaught, _) = run(0, 1), run(0, 0)
    one, two = fields(taught), fields(untaught)
    at = np.asarray(compaction.places(LAYOUT)) & one['mask']
    for name in ('tokens', 'valid', 'rewards'):
      np.testing.assert_array_equal(one[name], two[name])
    np.testing.assert_array_equal(two['mask'], one['mask'] & ~at)
    np.testing.assert_array_equal(two['logp'], np.where(at, 0, one['logp']))

  def test_values_skip_the_empty_note_of_the_first_window(self):
    _, _, _, run = decoder()
    rollout, _ = run(0, 1)
    critic = tabular.critic(VOCAB, 64)
    params = {'table': jnp.asarray(np.random.default_rng(3).normal(size=(64, VOCAB)), 'f')}
    values, last = jax.jit(lambda r: scoring.values_and_last(critic, params, r, LAYOUT))(rollout)
    r, looked = fields(rollout), np.asarray(params['table'])
    for p, g, s, t in np.argwhere(r['mask']):
      before = np.flatnonzero(r['valid'][p, g, s, :t])
      want = looked[len(before) - 1, r['tokens'][p, g, s, before[-1]]]
      self.assertAlmostEqual(values[p, g, s, t], want, places=5)
    for p, g in np.ndindex(3, 4):
      s = np.flatnonzero(r['valid'][p, g].any(-1))[-1]
      seen = np.flatnonzero(r['valid'][p, g, s])
      self.assertAlmostEqual(last[p, g], looked[len(seen) - 1, r['tokens'][p, g, s, seen[-1]]],
                             places=5)

  def test_seeds_under_vmap_equal_single_runs(self):
    policy = tabular.policy(VOCAB, 64)
    roots = lambda: [keys.root(5), keys.root(6)]
    run = lambda name: lambda p, k: play(policy, {'table': p}, k, axis_name=name)
    tables = jnp.asarray(np.stack([table(0), table(1)]), 'f')
    mapped = jax.vmap(run('seeds'), axis_name='seeds')
    many = jax.jit(mapped)(tables, jnp.stack(roots()))
    single = jax.jit(run(None))
    for i in range(2):
      jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda x, i=i: x[i], many),
                   single(tables[i], roots()[i]))
    text = str(jax.make_jaxpr(mapped)(tables, jnp.stack(roots())))
    for part in text.split('cond_jaxpr=')[1:]:
      self.assertRegex(part.split('}')[0], r'bool\[\] = and')

  def test_memory_of_the_sampler_is_that_of_one_window(self):
    # What is played goes out; what is alive meanwhile is the cache, and grows with L alone.
    shape = dataclasses.replace(toy.TINY, vocab=VOCAB, hidden=64, head_dim=32)
    policy = transformer.policy(shape)
    params = jax.eval_shape(policy.init, keys.root(0))

    def size(segments):
      layout = dataclasses.replace(LAYOUT, segments=segments)
      one = lambda params, key: play(policy, params, key, layout=layout)
      lowered = jax.jit(one).lower(params, keys.root(1))
      return lowered.compile().memory_analysis().temp_size_in_bytes

    self.assertLess(size(8), 1.3 * size(2))

  def test_without_summaries_nothing_is_there(self):
    bare = dataclasses.replace(LAYOUT, summary=0)
    policy, params = tabular.policy(VOCAB, 64), {'table': jnp.asarray(table(), 'f')}
    text = lambda **kwargs: str(jax.make_jaxpr(lambda p: play(policy, p, keys.root(1), layout=bare,
                                                              **kwargs))(params))
    self.assertEqual(text(), text(learn=0))
    self.assertEqual((bare.note, bare.length), (0, LAYOUT.length - 2 * LAYOUT.note))
    self.assertEqual(bare.row, bare.slots * bare.turn)
    self.assertLess(len(text()), len(str(jax.make_jaxpr(
        lambda p: play(policy, p, keys.root(1)))(params))))


class CreditTest(absltest.TestCase):

  def test_copies_change_no_credit(self):
    # The same trained tokens, once with copies between them and once as one dense row.
    *_, run = decoder()
    rollout, _ = run(0, 1)
    values = np.random.default_rng(0).normal(size=rollout.mask.shape).astype('f')
    segment = np.broadcast_to(np.arange(3)[:, None], rollout.mask.shape)
    flat = lambda x: np.asarray(x).reshape(3, 4, -1)
    mask, reward, turn = flat(rollout.mask), flat(rollout.rewards), flat(rollout.turn)
    width = mask.sum(-1).max()
    order = np.argsort(~mask, axis=-1, kind='stable')[..., :width]
    dense = lambda x: np.take_along_axis(flat(x), order, axis=-1)

    @jax.jit
    def credit(mask, reward, turn, segment, values):
      chunk, count = chunks.turn(mask, turn, segment, count=LAYOUT.max_turns)
      by_turn = chunks.total(reward, chunk, count)
      made = rollouts.context(mask, values=values)
      made = dataclasses.replace(made, segment_PGK=segment)
      out = dict(
          turn=chunks.spread(returns.reward_to_go(by_turn, chunks.tokens(chunk, count) > 0, made),
                             chunk),
          lam=returns.lambda_return(reward, mask, made, lam=0.9, bootstrap='none'),
          window=gae.adaptive_segment_return(reward, mask, made, alpha=1.5),
          cross=gae.adaptive_cross_segment_return(reward, mask, made, alpha=1.5))
      return {k: jnp.where(mask, v, 0.0) for k, v in out.items()}

    wide = credit(mask, reward, turn, flat(segment), flat(values))
    tight = credit(*(np.where(dense(mask), dense(x), 0) if i else dense(mask) for i, x in enumerate(
        (mask, reward, turn, segment, values))))
    for name, x in wide.items():
      np.testing.assert_allclose(dense(x) * dense(mask), tight[name], 2e-4, 1e-4, err_msg=name)

  def test_a_summary_earns_what_comes_after_it(self):
    # The reward of a turn is its number of tokens; a summary has none and belongs to the next turn.
    *_, run = decoder()
    r = fields(run(0, 1)[0])
    places = np.asarray(compaction.places(LAYOUT)) & r['mask']
    p, g, s, t = np.argwhere(places)[0]
    turn = r['turn'][p, g, s, t]
    later = r['rewards'][p, g][r['turn'][p, g] >= turn].sum()
    self.assertGreater(r['rewards'][p, g].sum(), later)
    flat = lambda name: jnp.asarray(r[name].reshape(3, 4, -1))
    chunk, count = chunks.turn(flat('mask'), flat('turn'), None, count=LAYOUT.max_turns)
    got = returns.reward_to_go(chunks.total(flat('rewards'), chunk, count),
                               chunks.tokens(chunk, count) > 0, None)
    self.assertAlmostEqual(float(got[p, g, turn]), later, places=4)


if __name__ == '__main__':
  absltest.main()
