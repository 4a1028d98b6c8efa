"""The benchmark: what it says is the least work, its laws, its task and its command line."""

import contextlib
import dataclasses
import io
import json
import os
import subprocess
import sys
from unittest import mock

from absl import flags
from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from configs import grpo as grpo_config
from grpo import keys
from grpo import types
from grpo.study import laws
from grpo.study import machine
from grpo.study import plain
from grpo.study import speed
from grpo.study import work as works
from scripts import bench

TINY = works.Work(layers=1, hidden=4, heads=2, kv_heads=1, head_dim=2, mlp=3, vocab=16, prompts=2,
                  group=3, prompt=2, completion=3)


class WorkTest(parameterized.TestCase):

  def test_flops_by_hand(self):
    # A layer multiplies 2*4*(4+2) + 3*4*3 = 84 weights a token, the head 4*16 = 64.
    # Attention of one layer costs 4*Q = 16 a pair of tokens.
    # Prompts: 2 of 2 tokens: 2 * (2*84*2 + 16*(1+2)) = 768.
    # Rows: 6, of which 2 of 3 tokens are read: 6 * (2*84*2 + 16*(3+4)) = 2688.
    # Scored: 6 rows of 3 tokens: 2*64*18 = 2304.
    self.assertEqual(works.flops(TINY), dict(generate=5760, score=0, train=17280))
    self.assertEqual(works.flops(dataclasses.replace(TINY, ref=True))['score'], 5760)

  @parameterized.named_parameters(
      ('small', 'small', 19.0, 57.0), ('medium', 'medium', 154, 463),
      ('completion', 'long-completion', 105, 316), ('prompt', 'long-prompt', 11.6, 34.7))
  def test_flops_of_the_cases(self, name, generate, train):
    costs = works.flops(works.CASES[name])
    self.assertAlmostEqual(costs['generate'] / 1e9, generate, delta=0.01 * generate)
    self.assertAlmostEqual(costs['train'] / 1e9, train, delta=0.01 * train)

  def test_cost_is_linear_in_seeds(self):
    costs = works.flops(TINY), works.flops(dataclasses.replace(TINY, seeds=5))
    self.assertEqual(costs[1], {k: 5 * v for k, v in costs[0].items()})

  def test_reward_is_the_share_of_one_token(self):
    work = dataclasses.replace(TINY, turns=2, observation=1)
    task = works.task(work)
    state, prompt, valid = task.reset(jax.random.key(0), {})
    self.assertTrue(np.all(np.asarray(prompt) >= works.FIRST_TOKEN))
    self.assertTrue(np.all(valid))
    valid = jnp.ones(3, bool)
    first = task.step(state, jnp.array([7, 1, 7]), valid, {})
    self.assertFalse(first.terminated)
    self.assertEqual(first.reward, 0.0)
    last = task.step(first.state, jnp.array([7, 7, 1]), jnp.array([True, False, False]), {})
    self.assertTrue(last.terminated)
    self.assertAlmostEqual(float(last.reward), 3 / 4)

  def test_layout_holds_an_episode(self):
    work = dataclasses.replace(TINY, turns=3, observation=2)
    self.assertEqual(works.layout(work), types.Layout(prompt=2, action=3, observation=2, turns=3))
    self.assertEqual((work.row_tokens, work.sampled), (3 * 5 - 2, 6 * 9))

  def test_windows_hold_the_whole_episode(self):
    # Two windows: a note of 1 + 4 slots before and behind 1 + 2 turns of 5 tokens; 5 turns in all.
    work = dataclasses.replace(TINY, turns=5, observation=2, windows=2, summary=4)
    self.assertEqual(works.layout(work).max_turns, 5)
    self.assertEqual((work.rows, work.row_tokens, work.sampled), (12, 25, 6 * (15 + 4)))
    for count, work in laws.LAWS['windows'].points:
      self.assertEqual(works.layout(work).max_turns, work.turns)
      self.assertEqual(works.layout(work).segments, count)


class LawsTest(absltest.TestCase):

  def test_verdict(self):
    law = laws.Law('x', [(1, TINY), (2, TINY), (4, TINY)], 'step_s', (2.0,))
    points = [dict(step_s=s) for s in (1.0, 2.0, 5.0)]
    out = laws.verdict(law, points)
    self.assertEqual(out['against_last'], [2.0, 2.5])
    self.assertFalse(out['holds'])
    out = laws.verdict(dataclasses.replace(law, against='first', limit=(2.0, 6.0)), points)
    self.assertEqual(out['against_first'], [2.0, 5.0])
    self.assertTrue(out['holds'])

  def test_new_tokens_are_equal_in_any_number_of_turns(self):
    sizes = {work.turns * work.completion for _, work in laws.LAWS['turns'].points}
    self.assertLen(sizes, 1)


class PlainTest(parameterized.TestCase):

  @parameterized.parameters(1, 2)
  def test_a_step_by_hand_gives_the_same_parameters(self, micro):
    work = dataclasses.replace(TINY, prompts=4, group=4, completion=6, micro=micro)
    out = plain.compare(speed.parts(grpo_config.get_config('smoke'), work), rounds=2)
    self.assertLess(out['largest_gap'], 1e-5)
    for name in ('composed_s', 'plain_s', 'ratio', 'ratio_min'):
      self.assertGreater(out[name], 0.0)

  def test_the_step_by_hand_moves(self):
    made = speed.parts(grpo_config.get_config('smoke'), TINY)
    params = made.policy.init(jax.random.key(0))
    new, _, reward, _ = jax.jit(plain.step(made))(
        params, made.optimiser.init(params), keys.root(0), jnp.int32(0))
    self.assertGreater(max(float(jnp.max(jnp.abs(a - b))) for a, b in zip(
        jax.tree.leaves(params), jax.tree.leaves(new), strict=True)), 1e-4)
    self.assertGreater(float(reward), 0.0)


class MachineTest(absltest.TestCase):

  def test_limits_are_positive(self):
    self.assertGreater(machine.matmul_gflops(size=64, seconds=0.01), 0.0)
    self.assertGreater(machine.bandwidth_gb_s(mib=1, seconds=0.01), 0.0)
    self.assertGreater(machine.process_age(), 0.0)
    self.assertGreater(machine.peak_rss_mib(), 1.0)
    self.assertBetween(machine.Share().take(), 0.0, 1.0)


class CommandTest(absltest.TestCase):

  def run_bench(self, *arguments):
    return subprocess.run(
        [sys.executable, '-m', 'scripts.bench', *arguments], capture_output=True, text=True,
        check=False, env=os.environ | {'JAX_PLATFORMS': 'cpu'})

  def test_a_line_has_the_keys_of_a_comparison(self):
    sizes = ('layers=1,hidden=32,heads=2,kv_heads=1,head_dim=16,mlp=32,vocab=32,prompts=2,'
             'group=2,micro=2')
    out = self.run_bench('--case=small-ref', '--steps=2',
                         f'--change={sizes},prompt=4,completion=4')
    self.assertEqual(out.returncode, 0, out.stderr)
    line = json.loads(out.stdout)
    for key in ('step_s', 'generate_s', 'score_s', 'train_s', 'generated_tok_s', 'trained_tok_s',
                'compile_s', 'start_to_first_step_s', 'peak_rss_mib', 'matmul_gflops',
                'bandwidth_gb_s', 'share_step'):
      self.assertGreater(line[key], 0.0, key)
    self.assertTrue(line['finite'])

  def test_a_law_says_where_it_is(self):
    law = laws.Law('group', [(2, TINY), (4, TINY)], 'step_s', (2.0,))
    flags.FLAGS.mark_as_parsed()
    with (mock.patch.dict(laws.LAWS, group=law), mock.patch.object(speed, 'limits', dict),
          mock.patch.object(speed, 'measure', lambda *x: dict(step_s=1.0)),
          contextlib.redirect_stdout(io.StringIO()) as out,
          contextlib.redirect_stderr(io.StringIO()) as err):
      bench._run_law('group', None)
    self.assertEqual(err.getvalue(), 'law group: point 1 of 2, group = 2\n'
                     'law group: point 2 of 2, group = 4\n')
    self.assertLen(out.getvalue().splitlines(), 3)  # what is measured, and nothing else

  def test_bad_input_is_one_line(self):
    for flag, words in (('--case=smal', "'small'"), ('--law=grup', "'group'"),
                        ('--change=promts=4', "'prompts'"), ('--change=prompts=x', 'int')):
      out = self.run_bench(flag)
      self.assertEqual(out.returncode, 2, flag)
      self.assertIn(words, out.stderr)
      self.assertLen(out.stderr.strip().splitlines(), 1, out.stderr)


if __name__ == '__main__':
  absltest.main()
