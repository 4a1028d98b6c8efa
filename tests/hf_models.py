"""Tiny random models of each family, as Hugging Face folders: configs, weights and inputs.

Weights come from a formula (`numpy.random.RandomState`, whose stream is frozen), so the references
that `tests/make_references.py` makes with PyTorch hold inputs and logits only.
"""

import json
import pathlib

import numpy as np

from grpo.models import families

DATA = pathlib.Path(__file__).parent / 'data' / 'hf_logits.npz'
LENGTH, KEPT, VOCAB = 320, 4, 48  # positions of a row; logits kept at the last so many real ones

_TINY = dict(vocab_size=VOCAB, hidden_size=24, intermediate_size=32, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, hidden_act='silu',
             max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
CONFIGS = {
    'llama': _TINY | dict(model_type='llama', rope_theta=10000.0, tie_word_embeddings=False),
    'llama3': _TINY | dict(
        model_type='llama', rope_theta=5000.0, attention_bias=True, mlp_bias=True,
        tie_word_embeddings=True, rope_scaling=dict(
            rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=64)),
    'smollm2': _TINY | dict(
        model_type='llama', num_attention_heads=3, num_key_value_heads=1, tie_word_embeddings=True,
        rope_theta=100000.0, rope_scaling=dict(type='linear', factor=2.5)),
    'qwen2': _TINY | dict(
        model_type='qwen2', tie_word_embeddings=True, rms_norm_eps=1e-6, rope_parameters=dict(
            rope_type='yarn', rope_theta=2000.0, factor=4.0, original_max_position_embeddings=64)),
    'qwen2_window': _TINY | dict(
        model_type='qwen2', tie_word_embeddings=False, use_sliding_window=True, sliding_window=20,
        max_window_layers=1, rope_theta=1000000.0),
    'qwen3': _TINY | dict(
        model_type='qwen3', head_dim=10, tie_word_embeddings=False, rms_norm_eps=1e-6,
        rope_theta=1000000.0),
    'gemma3': {k: v for k, v in _TINY.items() if k != 'hidden_act'} | dict(
        model_type='gemma3_text', head_dim=10, hidden_activation='gelu_pytorch_tanh',
        num_hidden_layers=3, num_key_value_heads=1, query_pre_attn_scalar=14, sliding_window=24,
        sliding_window_pattern=2, rope_theta=1000000.0, rope_local_base_freq=1000.0,
        rope_scaling=dict(rope_type='linear', factor=8.0)),
}


def weights(name: str) -> dict[str, np.ndarray]:
  """All tensors of a model by their names in a file, float32."""
  config = CONFIGS[name]
  stream = np.random.RandomState(sum(map(ord, name)))
  out = {}
  for key, tensor in families.tensors(families.shape_of(config), config['model_type']).items():
    x = stream.standard_normal(tensor.shape)
    if tensor.kind == 'norm':
      x = 0.1 * x
    elif len(tensor.shape) == 1:
      x = 0.2 * x + (1.0 if 'norm' in key else 0.0)
    elif 'embed' in key:
      x = 0.5 * x
    else:
      x = 1.5 * x / np.sqrt(tensor.shape[1])
    out[key] = x.astype(np.float32)
  return out


def save(name: str, folder: pathlib.Path, save_file) -> pathlib.Path:
  """Writes a folder with config.json and model.safetensors."""
  folder.mkdir(parents=True, exist_ok=True)
  (folder / 'config.json').write_text(json.dumps(CONFIGS[name]))
  save_file(weights(name), folder / 'model.safetensors')
  return folder


def inputs(name: str) -> tuple[np.ndarray, np.ndarray]:
  """Tokens int32, valid bool [3, LENGTH]: a full row, one padded on the left, one on the right."""
  stream = np.random.RandomState(7 + sum(map(ord, name)))
  tokens = stream.randint(1, VOCAB, (3, LENGTH)).astype(np.int32)
  valid = np.ones((3, LENGTH), bool)
  valid[1, :37] = False
  valid[2, -23:] = False
  return np.where(valid, tokens, 0), valid


def kept(valid: np.ndarray) -> np.ndarray:
  """Positions of the last KEPT real tokens of each row, int [3, KEPT]."""
  return np.stack([np.flatnonzero(row)[-KEPT:] for row in valid])
