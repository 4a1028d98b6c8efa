"""Models in and out: logits of transformers, folders written back, and what is refused."""

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

from grpo.models import arch
from grpo.models import blocks
from grpo.models import families
from grpo.models import hf
from grpo.models import transformer
from tests import hf_models
from tests import reference_llama

safetensors = pytest.importorskip('safetensors.numpy')


class FamilyTest(parameterized.TestCase):

  def folder(self, name):
    folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
    return hf_models.save(name, folder / 'model', safetensors.save_file)

  @parameterized.parameters(*hf_models.CONFIGS)
  def test_logits_are_those_of_transformers(self, name):
    # References: 320 positions, a full row, one padded on the left, one on the right.
    model = hf.read(self.folder(name))
    policy = transformer.policy(model.shape)
    tokens, valid = hf_models.inputs(name)
    rows = hf_models.kept(valid)[..., None]

    @jax.jit
    def run(params):
      hidden = policy.forward(params, None, tokens[:, None], valid[:, None])[:, 0]
      return policy.logits(params, jnp.take_along_axis(hidden, rows, axis=1))

    want = np.load(hf_models.DATA)[name]
    self.assertGreater(np.abs(want).max(), 3.0)
    np.testing.assert_allclose(run(model.params), want, atol=1e-4, rtol=0)

  def test_logits_are_those_of_a_float64_reference(self):
    model = hf.read(self.folder('llama'))
    tokens, valid = hf_models.inputs('llama')
    rows = hf_models.kept(valid)[..., None]
    exact = np.take_along_axis(reference_llama.logits(model, tokens, valid), rows, axis=1)
    # What the test above holds ours against, made by transformers in float32, is as near.
    np.testing.assert_allclose(np.load(hf_models.DATA)['llama'], exact, atol=5e-5, rtol=0)

  @parameterized.product(name=('gemma3',), scan=(False, True))
  def test_local_layers_look_back_the_same_way_however_a_text_is_read(self, name, scan):
    # As a whole; as a prompt and a row; and as a prompt, then in pieces through two blocks.
    model = hf.read(self.folder(name), scan=scan)
    policy, params = transformer.policy(model.shape), model.params
    tokens, valid = (x[:, :40] for x in hf_models.inputs(name))
    valid = valid.copy()
    valid[1, :37], valid[1, :5] = True, False
    valid[2, 30] = False                       # a hole takes no place
    cut = 33                                   # past both windows

    @jax.jit
    def run(params):
      whole = policy.forward(params, None, tokens[:, None], valid[:, None])[:, :, cut:]
      prefix = policy.prefill(params, tokens[:, :cut], valid[:, :cut])
      rest, real = tokens[:, None, cut:], valid[:, None, cut:]
      rows = policy.forward(params, prefix, rest, real)
      cache = policy.start(params, prefix, 1, 4)
      out = []
      for low, high in ((0, 3), (3, 4), (4, 7)):
        if low == 4:
          cache = policy.start(params, prefix, 1, 3, cache)
        hidden, cache = policy.extend(params, prefix, cache, rest[..., low:high],
                                      real[..., low:high], jnp.int32(low))
        out.append(hidden)
      return whole, rows, jnp.concatenate(out, axis=2)

    whole, rows, steps = run(params)
    np.testing.assert_allclose(rows, whole, atol=2e-5)
    np.testing.assert_allclose(steps, whole, atol=2e-5)

  @parameterized.parameters('llama', 'qwen2', 'qwen3', 'gemma3')
  def test_what_is_written_is_what_was_read(self, name):
    # tests/make_references.py holds such folders against transformers: difference 0.
    model = hf.read(self.folder(name))
    out = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
    hf.write(out / 'one', model)
    hf.write(out / 'many', dataclasses.replace(
        model, shape=dataclasses.replace(model.shape, scan=True),
        params=model.params | {'layers': blocks.stack(model.params['layers'])}), shard=9000)
    self.assertGreater(len(list((out / 'many').glob('model-*.safetensors'))), 2)
    want = hf_models.weights(name)
    found = safetensors.load_file(out / 'one' / 'model.safetensors')
    self.assertEqual(found.keys(), want.keys())
    for key, x in want.items():
      np.testing.assert_allclose(found[key], x, atol=2e-7)  # Gemma's norms: (x + 1) - 1
    for folder in ('one', 'many'):
      again = hf.read(out / folder)
      self.assertEqual(again.shape, model.shape)
      jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-7), again.params,
                   model.params)

  def test_bfloat16_files(self):
    model = hf.read(self.folder('qwen3'))
    out = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / 'half'
    half = hf.read(hf.write(out, model, dtype='bfloat16'))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(
        a, np.asarray(jnp.asarray(b, jnp.bfloat16), np.float32)), half.params, model.params)
    self.assertEqual(json.loads((out / 'config.json').read_text())['dtype'], 'bfloat16')


class RefusalTest(parameterized.TestCase):

  def changed(self, change):
    folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / 'model'
    hf_models.save('qwen2', folder, safetensors.save_file)
    tensors = hf_models.weights('qwen2')
    change(tensors)
    safetensors.save_file(tensors, folder / 'model.safetensors')
    return folder

  @parameterized.named_parameters(
      ('missing', lambda t: t.pop('model.layers.1.self_attn.q_proj.bias'),
       r'missing: model\.layers\.1\.self_attn\.q_proj\.bias'),
      ('unknown', lambda t: t.update({'model.layers.0.router': np.zeros(3, np.float32)}),
       r'unknown: model\.layers\.0\.router'),
      ('misshaped', lambda t: t.update({'model.norm.weight': np.zeros(7, np.float32)}),
       r'model\.norm\.weight is \[7\], should be \[24\]'),
      ('infinite', lambda t: t['model.norm.weight'].fill(np.inf), 'norm.weight.*not finite'),
      ('untied', lambda t: t.update({'lm_head.weight': np.zeros((48, 24), np.float32)}),
       'lm_head.weight differs from the embedding'))
  def test_tensors(self, change, message):
    with self.assertRaisesRegex(ValueError, message):
      hf.read(self.changed(change))

  @parameterized.parameters(
      (dict(model_type='mamba'), "model_type='mamba' is none of"),
      (dict(auto_map={'AutoModel': 'x.Y'}), 'auto_map'),
      (dict(quantization_config={'bits': 4}), 'quantization_config'),
      (dict(hidden_act='relu'), "hidden_act='relu'"),
      (dict(rope_parameters=dict(rope_type='dynamic', rope_theta=1e4, factor=2)), 'dynamic'),
      (dict(num_key_value_heads=3), 'must be a multiple of kv_heads=3'))
  def test_configs(self, change, message):
    with self.assertRaisesRegex(ValueError, message):
      families.shape_of(hf_models.CONFIGS['qwen2'] | change)

  def test_files(self):
    folder = self.changed(lambda t: None)
    (folder / 'model.safetensors').write_bytes(b'nonsense')
    with self.assertRaisesRegex(ValueError, 'model.safetensors cannot be read'):
      hf.read(folder)
    (folder / 'model.safetensors').rename(folder / 'pytorch_model.bin')
    with self.assertRaisesRegex(ValueError, 'pickled weights are not read'):
      hf.read(folder)
    with self.assertRaisesRegex(ValueError, 'no folder with a config.json'):
      hf.read(folder / 'nowhere')
    with self.assertRaisesRegex(ValueError, 'holds a model already'):
      hf.write(folder, None)

  def test_shapes(self):
    shape = families.shape_of(hf_models.CONFIGS['gemma3'])
    self.assertEqual(shape.local, (0, 2))
    for change in (dict(bias=('norm',)), dict(scaling=('linear',)), dict(local=(9,)),
                   dict(activation='relu')):
      with self.assertRaises(ValueError):
        dataclasses.replace(shape, **change)


class RatesTest(absltest.TestCase):

  def test_llama3_by_hand(self):
    # width 4, theta 100: rates 1 and 0.1. Original context 64, factors 8, 1, 4. Turns of the waves
    # over 64 positions: 10.19, above 4: stays. 1.0186: kept (1.0186 - 1) / 3 = 0.0062.
    got, factor = arch.rates(4, 100.0, ('llama3', 8.0, 1.0, 4.0, 64.0))
    np.testing.assert_allclose(got, [1.0, 0.1 * (0.0062 + 0.9938 / 8)], rtol=1e-4)
    self.assertEqual(factor, 1.0)


if __name__ == '__main__':
  absltest.main()
