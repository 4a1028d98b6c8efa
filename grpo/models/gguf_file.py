"""GGUF files of the Llama family: config, tensors and tokenizer, by the names of Hugging Face.

The file holds what llama.cpp wants: quantised weights, and rows of queries and keys in another
order, pairs of a rotation side by side. Both are undone here.
"""

from collections.abc import Callable
import functools
import json
import pathlib
from typing import Any

import numpy as np

from grpo.models import arch
from grpo.models import hf

__all__ = ['config', 'tensors', 'tokenizer', 'write_tokenizer']

_LAYER = dict(attn_norm='input_layernorm', ffn_norm='post_attention_layernorm',
              attn_q='self_attn.q_proj', attn_k='self_attn.k_proj', attn_v='self_attn.v_proj',
              attn_output='self_attn.o_proj', ffn_gate='mlp.gate_proj', ffn_up='mlp.up_proj',
              ffn_down='mlp.down_proj')
_TOP = dict(token_embd='model.embed_tokens', output_norm='model.norm', output='lm_head')
_CONTROL = 3  # type of a token that is a command, not text


@functools.lru_cache(maxsize=2)
def _reader(path: pathlib.Path):
  try:
    return hf.library('gguf').GGUFReader(path)
  except (OSError, ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:
    raise ValueError(f'{path} is no GGUF file, or is damaged: {error}') from error


def _get(path, key, default=None):
  field = _reader(path).get_field(key)
  if field is None and default is None:
    raise ValueError(f'{path} has no field {key}')
  return default if field is None else field.contents()


def config(path: pathlib.Path) -> dict[str, Any]:
  """What config.json would say.

  Raises:
    ValueError: another architecture, or scaled rotary angles.
  """
  family = _get(path, 'general.architecture')
  if family != 'llama':
    raise ValueError(f'{path}: architecture {family!r}; GGUF is read for llama only')
  if _get(path, 'llama.rope.scaling.type', 'none') != 'none':
    raise ValueError(f'{path}: scaled rotary angles are not read from GGUF')
  names = {t.name for t in _reader(path).tensors}
  number = lambda key: _get(path, f'llama.{key}')
  heads = number('attention.head_count')
  return dict(
      architectures=['LlamaForCausalLM'], model_type='llama', hidden_act='silu',
      num_hidden_layers=number('block_count'), hidden_size=number('embedding_length'),
      intermediate_size=number('feed_forward_length'), num_attention_heads=heads,
      num_key_value_heads=_get(path, 'llama.attention.head_count_kv', heads),
      head_dim=number('rope.dimension_count'), vocab_size=number('vocab_size'),
      # Stored in 32 bits: 1e-5 there is 9.9999997e-6.
      rms_norm_eps=float(f'{number("attention.layer_norm_rms_epsilon"):.6g}'),
      rope_theta=float(_get(path, 'llama.rope.freq_base', 1e4)),
      max_position_embeddings=number('context_length'),
      tie_word_embeddings='output.weight' not in names, attention_bias=False, mlp_bias=False,
      bos_token_id=_get(path, 'tokenizer.ggml.bos_token_id'),
      eos_token_id=_get(path, 'tokenizer.ggml.eos_token_id'))


def tensors(path: pathlib.Path, shape: arch.Shape) -> tuple[dict[str, tuple[int, ...]], Callable]:
  """Shapes of all tensors by their Hugging Face names, and a function that reads one."""
  found = {_name(t.name): t for t in _reader(path).tensors}

  def get(name):
    tensor = found[name]
    x = hf.library('gguf').quants.dequantize(tensor.data, tensor.tensor_type)
    for part, heads in (('q_proj', shape.heads), ('k_proj', shape.kv_heads)):
      if f'{part}.weight' in name:  # pairs (2i, 2i + 1) to pairs (i, i + width / 2)
        x = x.reshape(heads, shape.head_dim // 2, 2, -1).swapaxes(1, 2).reshape(x.shape)
    return np.asarray(x, np.float32)

  return {k: tuple(int(n) for n in reversed(t.shape)) for k, t in found.items()}, get


def _name(name: str) -> str:
  """A tensor's name in a Hugging Face folder; one that is unknown stays, and is refused later."""
  stem, _, kind = name.rpartition('.')
  if stem.startswith('blk.'):
    _, layer, part = stem.split('.', 2)
    return f'model.layers.{layer}.{_LAYER[part]}.{kind}' if part in _LAYER else name
  return f'{_TOP[stem]}.{kind}' if stem in _TOP else name


def tokenizer(path: pathlib.Path):
  """(tokenizers.Tokenizer, chat template, special tokens by role), of a byte-level BPE."""
  tokenizers = hf.library('tokenizers')
  kind, how = _get(path, 'tokenizer.ggml.model'), _get(path, 'tokenizer.ggml.pre', 'default')
  if (kind, how) != ('gpt2', 'smollm'):
    raise ValueError(f'{path}: the tokenizer {kind}/{how} is not read from GGUF; convert the model '
                     'to a folder with a tokenizer.json')
  tokens = _get(path, 'tokenizer.ggml.tokens')
  merges = [tuple(m.split(' ')) for m in _get(path, 'tokenizer.ggml.merges')]
  made = tokenizers.Tokenizer(tokenizers.models.BPE(
      vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
  split = tokenizers.pre_tokenizers
  made.pre_tokenizer = split.Sequence([split.Digits(individual_digits=True),
                                       split.ByteLevel(add_prefix_space=False)])
  made.decoder = tokenizers.decoders.ByteLevel()
  control = [t for t, k in zip(tokens, _get(path, 'tokenizer.ggml.token_type')) if k == _CONTROL]
  made.add_special_tokens(control)
  special = {f'{role}_token': tokens[_get(path, f'tokenizer.ggml.{word}_token_id')]
             for role, word in (('bos', 'bos'), ('eos', 'eos'), ('unk', 'unknown'),
                                ('pad', 'padding'))}
  return made, _get(path, 'tokenizer.chat_template'), special


def write_tokenizer(path: pathlib.Path, folder: pathlib.Path) -> None:
  """Writes tokenizer.json, tokenizer_config.json and generation_config.json."""
  made, template, special = tokenizer(path)
  made.save(str(folder / 'tokenizer.json'))
  rest = dict(tokenizer_class='PreTrainedTokenizerFast', chat_template=template,
              clean_up_tokenization_spaces=False, **special,
              model_max_length=_get(path, 'llama.context_length'))
  ends = {f'{k}_token_id': _get(path, f'tokenizer.ggml.{word}_token_id')
          for k, word in (('bos', 'bos'), ('eos', 'eos'), ('pad', 'padding'))}
  for name, tree in (('tokenizer_config', rest), ('generation_config', ends)):
    (folder / f'{name}.json').write_text(json.dumps(tree, indent=2) + '\n', encoding='utf-8')
