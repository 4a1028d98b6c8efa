"""Adapters as a folder of `peft`: names and numbers of the format, round trips, refusals."""

import dataclasses
import json
import pathlib
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
import pytest

safetensors = pytest.importorskip('safetensors.numpy')

from grpo.models import adapters  # noqa: E402
from grpo.models import blocks  # noqa: E402
from grpo.models import families  # noqa: E402
from grpo.models import peft  # noqa: E402
from tests import hf_models  # noqa: E402

HOW = dict(rank=3, alpha=6.0)


def made(name, **how):
  """(shape, adapters of random numbers as NumPy arrays)."""
  shape = families.shape_of(hf_models.CONFIGS[name], **HOW | how)
  stream = np.random.RandomState(0)
  shapes = jax.eval_shape(adapters.policy(shape, None).init, jax.random.key(0))
  return shape, jax.tree.map(lambda x: stream.standard_normal(x.shape).astype(np.float32), shapes)


class PeftTest(parameterized.TestCase):

  def folder(self):
    return pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / 'adapter'

  def written(self, change=lambda config, tensors: None, name='qwen2'):
    shape, params = made(name)
    folder = peft.write(self.folder(), shape, name, params, base='some/model')
    config = json.loads((folder / 'adapter_config.json').read_text())
    tensors = safetensors.load_file(folder / 'adapter_model.safetensors')
    change(config, tensors)
    (folder / 'adapter_config.json').write_text(json.dumps(config))
    safetensors.save_file(tensors, folder / 'adapter_model.safetensors')
    return shape, params, folder

  @parameterized.parameters(('llama', False), ('qwen3', True), ('gemma3', False))
  def test_what_is_written_is_read(self, name, scan):
    shape, params = made(name, scan=scan)
    family = hf_models.CONFIGS[name]['model_type']
    folder = peft.write(self.folder(), shape, family, params, base='some/model')
    jax.tree.map(np.testing.assert_array_equal, peft.read(folder, shape, family), params)
    apart = dataclasses.replace(shape, scan=not scan)
    again = peft.read(folder, apart, family)
    turn = blocks.unstack if scan else blocks.stack
    jax.tree.map(np.testing.assert_array_equal, again, {'layers': turn(params['layers'])})

  def test_the_format(self):
    # peft: h = W x + (lora_alpha / r) B A x, A [r, in] and B [out, r], on PyTorch's W [out, in].
    shape, params, folder = self.written(name='llama')
    config = json.loads((folder / 'adapter_config.json').read_text())
    self.assertEqual((config['peft_type'], config['task_type'], config['r'], config['lora_alpha']),
                     ('LORA', 'CAUSAL_LM', 3, 6.0))
    self.assertEqual(config['base_model_name_or_path'], 'some/model')
    self.assertEqual(config['target_modules'], ['down_proj', 'gate_proj', 'k_proj', 'o_proj',
                                                'q_proj', 'up_proj', 'v_proj'])
    tensors = safetensors.load_file(folder / 'adapter_model.safetensors')
    self.assertLen(tensors, 2 * 7 * shape.layers)
    at = 'base_model.model.model.layers.1.mlp.down_proj'
    a, b = tensors[f'{at}.lora_A.weight'], tensors[f'{at}.lora_B.weight']
    self.assertEqual((a.shape, b.shape), ((3, shape.mlp), (shape.hidden, 3)))
    weights = hf_models.weights('llama')['model.layers.1.mlp.down_proj.weight']
    theirs = weights + config['lora_alpha'] / config['r'] * b @ a
    base = {'layers': {'1': {'mlp': {'down': {'kernel': weights.T}}}}}
    ours = adapters.merged(shape, base, {'layers': {'1': {'mlp': {
        'down': params['layers']['1']['mlp']['down']}}}})
    np.testing.assert_allclose(ours['layers']['1']['mlp']['down']['kernel'].T, theirs, atol=1e-5)

  def test_bfloat16(self):
    shape, params = made('llama')
    folder = peft.write(self.folder(), shape, 'llama', params, base='', dtype='bfloat16')
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(
        a, np.asarray(jnp.asarray(b, jnp.bfloat16), np.float32)),
                 peft.read(folder, shape, 'llama'), params)

  @parameterized.named_parameters(
      ('rank', lambda c, t: c.update(r=8), 'r=8, and model.rank=3'),
      ('alpha', lambda c, t: c.update(lora_alpha=16), 'lora_alpha=16, and model.alpha=6.0'),
      ('dora', lambda c, t: c.update(use_dora=True), 'use_dora=True is not supported'),
      ('kind', lambda c, t: c.update(peft_type='IA3'), "peft_type='IA3' is not supported"),
      ('missing', lambda c, t: t.pop('base_model.model.model.layers.0.mlp.up_proj.lora_B.weight'),
       r'missing: base_model\.model\.model\.layers\.0\.mlp\.up_proj\.lora_B\.weight'),
      ('unknown', lambda c, t: t.update(x=np.zeros(1, np.float32)), 'unknown: x'),
      ('misshaped', lambda c, t: t.update(
          {'base_model.model.model.layers.0.mlp.up_proj.lora_A.weight': np.zeros((2, 24), 'f')}),
       r'up_proj\.lora_A\.weight is \[2, 24\], should be \[3, 24\]'),
      ('infinite', lambda c, t: t['base_model.model.model.layers.0.mlp.up_proj.lora_A.weight'].fill(
          np.nan), 'not finite'))
  def test_refused(self, change, message):
    shape, _, folder = self.written(change)
    with self.assertRaisesRegex(ValueError, message):
      peft.read(folder, shape, 'qwen2')

  def test_folders(self):
    shape, params, folder = self.written()
    with self.assertRaisesRegex(ValueError, 'holds adapters already'):
      peft.write(folder, shape, 'qwen2', params, base='')
    with self.assertRaisesRegex(ValueError, 'model.adapter=.*: no folder with adapter_config.json'):
      peft.read(folder / 'nowhere', shape, 'qwen2')


if __name__ == '__main__':
  absltest.main()
