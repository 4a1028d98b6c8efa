"""Bytes from shapes: by hand, against a compiled program, and the page that they make."""

import dataclasses

from absl.testing import absltest
from absl.testing import parameterized
import jax

from grpo import types
from grpo.learn import footprint
from grpo.models import arch
from scripts import llm_size

LAYOUT = types.Layout(prompt=8, action=24, observation=0, turns=1)
TINY = arch.Shape(layers=3, hidden=64, heads=4, kv_heads=2, head_dim=16, mlp=96, vocab=50,
                  qk_norm=False, scan=True)


class FootprintTest(parameterized.TestCase):

  def test_by_hand(self):
    # A layer: query and output 64 x 64 each, key and value 64 x 32 each, three matrices of 64 x 96,
    # two norms: 8192 + 4096 + 18432 + 128 = 30848. Three, the table 3200 and a norm: 95808.
    got = footprint.footprint(TINY, LAYOUT, prompts=5, group=4, micro=1)
    self.assertEqual((got.trained, got.weights, got.optimiser, got.gradients),
                     (95808, 4 * 95808, 8 * 95808, 4 * 95808))
    # Keys and values of 3 layers, 2 heads of 16 numbers: 192 numbers a token; 5 prompts of 8 tokens
    # and 20 rows of 24 are 520. States of prompts 5 x 64; a byte a place for what is valid, a
    # number a row for how much.
    self.assertEqual(got.cache, 4 * (192 * 520 + 5 * 64) + 520 + 4 * 20)
    self.assertEqual(got.peak, got.weights + got.optimiser + max(
        got.gradients + got.activations, got.cache))
    # Adapters of rank 2: 2 (in + out) of each matrix, 2 (128 + 128 + 96 + 96 + 3 x 160) a layer.
    small = footprint.footprint(dataclasses.replace(TINY, rank=2, dtype='bfloat16'), LAYOUT,
                                prompts=5, group=4, micro=1)
    self.assertEqual(small.trained, 3 * 2 * 928)
    norms = 64 * 7
    self.assertEqual(small.weights, 4 * small.trained + 2 * (95808 - norms) + 4 * norms)

  @parameterized.parameters((0, False), (2, True))
  def test_against_a_compiled_program(self, rank, remat):
    shape = dataclasses.replace(TINY, rank=rank, remat=remat, layers=6)
    size = dict(prompts=2, group=8)
    said = footprint.footprint(shape, LAYOUT, prompts=2, group=8, micro=2).activations
    function, given = footprint.update(shape, LAYOUT, **size)
    found = jax.jit(function).lower(*given).compile().memory_analysis().temp_size_in_bytes
    self.assertBetween(found / said, 0.7, 2.0)

  def test_remat_keeps_less(self):
    kept = [footprint.saved(dataclasses.replace(TINY, remat=remat), LAYOUT, prompts=2, group=8)
            for remat in (False, True)]
    self.assertLess(3 * kept[1], kept[0])


class PageTest(parameterized.TestCase):

  def test_numbers_of_parameters_are_those_of_the_models(self):
    want = {'135M': 134515008, '360M': 361821120, '1.7B': 1711376384, '7B': 7615616512}
    for name, count in want.items():
      params, _ = footprint._abstract(llm_size.shape(name, 0, 'float32', False))
      self.assertEqual(sum(x.size for x in jax.tree.leaves(params)), count, name)

  def test_rows_are_up_to_date(self):
    page = llm_size.PAGE.read_text(encoding='utf-8')
    for case in (('135M', llm_size.RANK, 'float32'), ('7B', 0, 'bfloat16')):
      self.assertIn(llm_size.row(*case), page, 'run python -m scripts.llm_size')

  def test_the_whole_page_is_up_to_date(self):
    self.assertEqual(llm_size.PAGE.read_text(encoding='utf-8'), llm_size.page(),
                     'run python -m scripts.llm_size')


if __name__ == '__main__':
  absltest.main()
