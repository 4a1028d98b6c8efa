"""Whole episodes: what is recorded, that it is what the model saw, and that streams are named."""

import dataclasses
import functools
from unittest import mock

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
from grpo.rollout import compaction
from grpo.rollout import sampler
from grpo.rollout import writing
from tests import toy

SHAPE = dataclasses.replace(toy.TINY, layers=1)
TABLE = tabular.policy(toy.VOCAB, 64, scale=1.0)


def _run(policy, params, task, layout, key=None, *, end_share=0.0, **kwargs):
  kwargs = dict(step=3, prompts=3, samples=4, temperature=0.7) | kwargs
  knobs = task.knobs | dict(end_share=end_share)
  return sampler.sample(policy, params, task, layout, knobs, keys.root(1) if key is None else key,
                        **kwargs)


def _table(seed=0):
  shape = (64, toy.VOCAB, toy.VOCAB)
  return {'table': jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)}


def _same(a, b):
  jax.tree.map(np.testing.assert_array_equal, a, b)


class RecordTest(parameterized.TestCase):

  @parameterized.named_parameters(
      ('windows', dict(turns=20), dict(turns=2, segments=3, carry=2), None),
      ('turns_in_blocks', dict(turns=20), dict(turns=6), 12),
      ('long_action_in_blocks', dict(turns=1, action=20, observation=0, stops=(7,)),
       dict(turns=1), 8))
  def test_sampled_logp_is_the_scored_one(self, task, layout, block):
    task = toy.chatter(**task)
    layout = toy.layout(task, **layout)
    policy = transformer.policy(SHAPE)
    params = jax.tree.map(lambda x: 2 * x, jax.jit(policy.init)(keys.root(0)))
    with mock.patch.object(writing, '_BLOCK', block or writing._BLOCK):
      if block and layout.slots > 1:
        self.assertGreater(len(writing.plan(layout)), 2)
      rollout = jax.jit(lambda p: _run(policy, p, task, layout, end_share=0.05))(params)
    logp, entropy = jax.jit(lambda p, r: scoring.score(policy, p, r, layout, 0.7))(params, rollout)
    self.assertLess(float(jnp.max(jnp.abs(logp - rollout.logp))), 1e-5)
    self.assertGreater(float(jnp.std(rollout.logp[rollout.mask])), 0.1)
    self.assertTrue(bool(jnp.all(entropy[rollout.mask] > 0)))
    self.assertGreater(int(rollout.mask.sum()), 60)
    self.check_record(rollout, layout, task)

  def check_record(self, rollout, layout, task):
    r = jax.tree.map(np.asarray, rollout)
    P, G, S, L = r.tokens.shape
    self.assertEqual(L, layout.length)
    off = ~r.mask
    for name, rest in (('logp', 0), ('rewards', 0), ('turn', -1), ('state_id', 0)):
      np.testing.assert_array_equal(getattr(r, name)[off], rest, err_msg=name)
    np.testing.assert_array_equal(r.tokens[~r.valid], 0)
    self.assertTrue(np.all(r.valid[r.mask]))
    np.testing.assert_array_equal(r.truncated, ~r.terminated)
    for p in range(P):
      for g in range(G):
        turns = r.turn[p, g][r.mask[p, g]]
        self.assertTrue(np.all(np.diff(turns) >= 0))
        self.assertEqual(list(np.unique(turns)), list(range(turns.max() + 1)))
        if r.truncated[p, g]:
          self.assertEqual(turns.max() + 1, layout.max_turns)
        self.assertEqual(r.success[p, g], float(r.terminated[p, g]))
        for k in range(turns.max() + 1):
          place = np.argwhere(r.turn[p, g] == k)
          s = place[0, 0]
          self.assertTrue(np.all(place[:, 0] == s))
          slots = place[:, 1]
          self.assertEqual(list(slots), list(range(slots[0], slots[0] + len(slots))))
          tokens = r.tokens[p, g, s, slots]
          # The first stop token is trained and ends the action.
          stops = np.isin(tokens, task.stop_ids)
          self.assertFalse(stops[:-1].any())
          self.assertTrue(stops[-1] or len(slots) == layout.action)
          # The reward of this task is the number of tokens, on the last of them.
          np.testing.assert_array_equal(r.rewards[p, g, s, slots[:-1]], 0)
          self.assertEqual(r.rewards[p, g, s, slots[-1]], len(slots))
          self.assertEqual(len(np.unique(r.state_id[p, g, s, slots])), 1)
          self.assertTrue(np.all(r.state_id[p, g, s, slots] > 0))
          # The token before the action and the last slot of what was seen are real.
          self.assertTrue(r.valid[p, g, s, slots[0] - 1])
          if layout.observation:
            self.assertTrue(r.valid[p, g, s, slots[0] + layout.turn - 1])
        # A later window starts with the same prompt and the turns that were copied.
        for s in range(1, S):
          if not r.mask[p, g, s].any():
            self.assertFalse(r.valid[p, g, s].any())
            continue
          copied, lead = layout.carry * layout.turn, layout.prompt
          for x in (r.tokens, r.valid):
            np.testing.assert_array_equal(x[p, g, s, :lead], x[p, g, 0, :lead])
            np.testing.assert_array_equal(x[p, g, s, lead:lead + copied], x[p, g, s - 1, -copied:])
          self.assertFalse(r.mask[p, g, s, :lead + copied].any())

  def test_what_a_compaction_forgets(self):
    task = toy.chatter(turns=20)
    layout = toy.layout(task, turns=2, segments=3, carry=2)
    policy = transformer.policy(SHAPE)
    params = jax.tree.map(lambda x: 2 * x, jax.jit(policy.init)(keys.root(0)))

    @jax.jit
    def run(params, forget):
      rollout = _run(policy, params, task, layout, forget=forget)
      return rollout, scoring.score(policy, params, rollout, layout, 0.7)[0]

    (all_, _), (less, logp) = run(params, 0), run(params, 1)
    self.assertLess(float(jnp.max(jnp.abs(logp - less.logp))), 1e-5)
    lead, turn = layout.prompt, layout.turn
    for name in ('tokens', 'valid'):  # the oldest turn is gone, the rest is a copy as before
      x = np.asarray(getattr(less, name))
      self.assertFalse(x[:, :, 1:, lead:lead + turn].any())
      np.testing.assert_array_equal(x[:, :, 1:, lead + turn:lead + 2 * turn], x[:, :, :-1, -turn:])
    first = lambda r: jax.tree.map(lambda x: np.asarray(x)[:, :, 0], (r.tokens, r.logp, r.turn))
    _same(first(all_), first(less))
    self.assertFalse(np.array_equal(all_.logp, less.logp))

  def test_pad_that_is_also_the_stop_token(self):
    # Stop = pad = 0: masks come from places. A prompt that holds the id keeps it.
    task = toy.chatter(turns=1, action=5, observation=0, stops=(0,))
    layout = toy.layout(task, turns=1)
    table = jnp.zeros((64, toy.VOCAB, toy.VOCAB)).at[:, :, 0].set(2.0)
    rollout = jax.jit(lambda: _run(TABLE, {'table': table}, task, layout, prompts=8))()
    length = np.asarray(rollout.mask.sum(-1))
    self.assertGreater(len(np.unique(length)), 2)
    ends = np.take_along_axis(np.asarray(rollout.tokens), layout.prompt + length[..., None] - 1, -1)
    np.testing.assert_array_equal(ends[length < 5], 0)
    self.check_record(rollout, layout, task)

  def test_limit_of_the_task_cuts_and_keeps_the_true_successor(self):
    task = toy.chatter(turns=2)
    layout = toy.layout(task, turns=4)
    rollout = jax.jit(lambda: _run(TABLE, _table(), task, layout))()
    self.assertTrue(bool(jnp.all(rollout.truncated & ~rollout.terminated)))
    self.assertEqual(int(rollout.turn.max()), 1)
    after = layout.prompt + 2 * layout.turn
    self.assertTrue(bool(jnp.all(rollout.valid[..., after - 1])))
    self.assertFalse(bool(jnp.any(rollout.valid[..., after:])))

  def test_no_trained_token_is_lost(self):
    # 3 turns of 4 sampled tokens with 2 of observation between: 12 trained.
    task = toy.chatter(turns=3, action=4, observation=2, stops=())
    rollout = jax.jit(lambda: _run(TABLE, _table(), task, toy.layout(task, turns=3)))()
    np.testing.assert_array_equal(rollout.mask.sum((-1, -2)), 12)


class StreamTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.task = toy.chatter(turns=1, prompt=2, action=16, observation=0, stops=())
    self.layout = toy.layout(self.task, turns=1)
    uniform = tabular.policy(100, 20)
    self.sample = functools.partial(_run, uniform, {'table': jnp.zeros((20, 100, 100))}, self.task,
                                    self.layout)
    sized = jax.jit(lambda step, first, prompts, samples: self.sample(
        step=step, first_prompt=first, prompts=prompts, samples=samples), static_argnums=(2, 3))
    self.run = lambda step=3, first_prompt=0, prompts=4, samples=8: sized(
        step, first_prompt, prompts, samples)

  def test_same_draws_however_the_prompts_are_split(self):
    whole = self.run()
    actions = np.asarray(whole.tokens[..., 2:]).reshape(32, 16)
    self.assertLen(np.unique(actions, axis=0), 32)
    start = np.asarray(whole.state_id[:, :, 0, 2])  # names the instance: one a group
    self.assertLen(np.unique(start), 4)
    np.testing.assert_array_equal(start, np.broadcast_to(start[:, :1], start.shape))
    for size in (2,):
      parts = [self.run(prompts=size, first_prompt=i) for i in range(0, 4, size)]
      _same(jax.tree.map(lambda *x: jnp.concatenate(x), *parts), whole)
    _same(self.run(), whole)
    other = np.asarray(self.run(step=4).tokens[..., 2:]).reshape(32, 16)
    self.assertLen(np.unique(np.concatenate([actions, other]), axis=0), 64)
    more = self.run(samples=9)
    _same(jax.tree.map(lambda x: x[:, :8], more), whole)

  def test_four_devices_give_the_same_rollout(self):
    mesh = jax.make_mesh((4,), ('data',), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.sharding.NamedSharding(mesh, jax.P('data'))
    place = lambda tree: jax.lax.with_sharding_constraint(tree, sharding)
    out = jax.jit(lambda: self.sample(prompts=4, samples=8, place=place))()
    _same(jax.device_get(out), jax.device_get(self.run()))

  def test_seeds_under_vmap_equal_single_runs(self):
    task = toy.chatter(turns=4)
    layout = toy.layout(task, turns=1, segments=3, carry=1)
    roots = lambda: [keys.root(5), keys.root(6)]
    tables = jax.tree.map(lambda *x: jnp.stack(x), _table(0), _table(1))
    run = lambda name: lambda p, k: _run(TABLE, p, task, layout, k, end_share=0.3, axis_name=name)
    many = jax.jit(jax.vmap(run('seeds'), axis_name='seeds'))(tables, jnp.stack(roots()))
    single = jax.jit(run(None))
    for i in range(2):
      one = single(jax.tree.map(lambda x: x[i], tables), roots()[i])
      _same(jax.tree.map(lambda x: x[i], many), one)
    # No loop may turn its predicate into one per seed: that copies the cache at every token.
    mapped = jax.vmap(run('seeds'), axis_name='seeds')
    text = str(jax.make_jaxpr(mapped)(tables, jnp.stack(roots())))
    self.assertIn('while[', text)
    for part in text.split('cond_jaxpr=')[1:]:
      self.assertRegex(part.split('}')[0], r'bool\[\] = and')


class EarlyExitTest(parameterized.TestCase):

  def test_loops_end_with_the_last_row(self):
    task = toy.chatter(turns=50, action=20)
    layout = toy.layout(task, turns=50)
    calls = []

    def extend(*args):
      jax.debug.callback(lambda: calls.append(1))
      return TABLE.extend(*args)

    policy = dataclasses.replace(TABLE, extend=extend)
    table = jnp.zeros((64, toy.VOCAB, toy.VOCAB)).at[:, :, toy.STOPS[0]].set(50.0)
    rollout = jax.jit(lambda: _run(policy, {'table': table}, task, layout, end_share=0.5))()
    jax.effects_barrier()
    turns = int(rollout.turn.max()) + 1
    self.assertLess(turns, 40)
    # Each turn stops at its first token, so it costs one pass: that token and the observation.
    self.assertLen(calls, turns - 1)


class ChooseTest(absltest.TestCase):

  def test_greedy_takes_the_best_token_and_top_k_only_good_ones(self):
    task = toy.chatter(turns=3, stops=())
    layout = toy.layout(task, turns=3)
    greedy = jax.jit(lambda: _run(TABLE, _table(), task, layout, choose=choose.greedy))()
    np.testing.assert_array_equal(greedy.logp, 0.0)
    again = jax.jit(lambda: _run(TABLE, _table(), task, layout, choose=choose.top_k(1)))()
    np.testing.assert_array_equal(greedy.tokens, again.tokens)
    kept = jax.jit(lambda: _run(TABLE, _table(), task, layout, choose=choose.top_k(2)))()
    full = scoring.logps(TABLE, _table(), kept, layout, 0.7)
    self.assertTrue(bool(jnp.all((kept.logp - full)[kept.mask] > 0)))


class CheckTest(absltest.TestCase):

  def test_layouts_that_do_not_fit_are_refused(self):
    task = toy.chatter(turns=3)
    good = toy.layout(task, turns=3)
    with self.assertRaisesRegex(ValueError, 'layout.action'):
      _run(TABLE, _table(), task, dataclasses.replace(good, action=4))
    with self.assertRaisesRegex(ValueError, 'tokens'):
      _run(tabular.policy(5, 4), _table(), task, good)
    mute = toy.chatter(turns=3, observation=0)
    with self.assertRaisesRegex(ValueError, 'observations'):
      _run(TABLE, _table(), mute, toy.layout(mute, turns=3))

  def test_plan_covers_the_window(self):
    for turns in (1, 5, 40, 400):
      layout = types.Layout(8, 8, 8, turns)
      blocks = writing.plan(layout)
      self.assertLessEqual(len(blocks), 8)
      self.assertEqual([b[0] for b in blocks[1:]], [b[1] for b in blocks[:-1]])
      self.assertEqual(sum(b[2] for b in blocks), layout.length - layout.prompt)


class CompactionTest(absltest.TestCase):

  def test_last_turns_move_to_the_front(self):
    layout = types.Layout(prompt=2, action=1, observation=1, turns=2, segments=2, carry=1)
    tokens = jnp.arange(1, 13).reshape(1, 2, 6)
    alive = jnp.array([[True, False]])
    got, valid = compaction.carried(tokens, tokens > 0, alive, layout)
    np.testing.assert_array_equal(got, [[[5, 6], [0, 0]]])
    np.testing.assert_array_equal(valid, [[[True, True], [False, False]]])
    whole, real = compaction.window(jnp.array([[0, 9]]), jnp.array([[False, True]]), tokens,
                                    tokens % 2 == 1, alive)
    np.testing.assert_array_equal(whole[0, 0], [0, 9, 1, 0, 3, 0, 5, 0])
    self.assertFalse(bool(real[0, 1].any()))
    self.assertEqual([compaction.global_turn(1, k, layout) for k in (1, 2)], [3, 4])


if __name__ == '__main__':
  absltest.main()
