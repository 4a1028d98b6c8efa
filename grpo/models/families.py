"""Hugging Face's names for what `arch.Shape` says: fields of config.json, and tensors.

Llama (also SmolLM2), Qwen2 and 2.5, Qwen3, and the text side of Gemma 3. A field that would change
the mathematics and that a decoder of ours does not have is refused, never ignored.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any, NamedTuple

from grpo.models import arch

__all__ = ['FAMILIES', 'Tensor', 'shape_of', 'config_of', 'tensors']

FAMILIES = dict(llama='LlamaForCausalLM', qwen2='Qwen2ForCausalLM', qwen3='Qwen3ForCausalLM',
                gemma3_text='Gemma3ForCausalLM')
_PROJECTIONS = dict(query='self_attn.q_proj', key='self_attn.k_proj', value='self_attn.v_proj',
                    output='self_attn.o_proj', gate='mlp.gate_proj', up='mlp.up_proj',
                    down='mlp.down_proj')
_ACTIVATIONS = dict(silu='silu', gelu_pytorch_tanh='gelu')
# Fields that must hold one of these values where they are there.
_ONLY = dict(partial_rotary_factor=(1, 1.0, None), attn_logit_softcapping=(None,),
             final_logit_softcapping=(None,), quantization_config=(None,), auto_map=(None, {}),
             pretraining_tp=(1, None), use_bidirectional_attention=(False, None), vision_config=(
                 None,))


class Tensor(NamedTuple):
  """Where a tensor of a file goes."""
  path: tuple[str, ...]   # of our parameters
  shape: tuple[int, ...]  # in the file
  kind: str               # plain, matrix ([out, in] there, [in, out] here), or norm (1 less there)


def shape_of(config: Mapping[str, Any], **how) -> arch.Shape:
  """The shape that a config.json describes.

  Args:
    config: its content, in the form of transformers 4 (`rope_theta`) or 5 (`rope_parameters`).
    **how: fields of Shape that are no property of the weights: dtype, scan, remat.

  Raises:
    ValueError: another family, or a field that cannot be honoured; names it and its value.
  """
  family = config.get('model_type')
  if family not in FAMILIES:
    raise ValueError(f'config.json: model_type={family!r} is none of {", ".join(FAMILIES)}')
  for field, allowed in _ONLY.items():
    if field in config and config[field] not in allowed:
      raise ValueError(f'config.json: {field}={config[field]!r} is not supported')
  gemma = family == 'gemma3_text'
  get = lambda *names: next((config[n] for n in names if config.get(n) is not None), None)
  try:
    layers, hidden, heads = (config[k] for k in (
        'num_hidden_layers', 'hidden_size', 'num_attention_heads'))
    sizes = dict(layers=layers, hidden=hidden, heads=heads, mlp=config['intermediate_size'],
                 vocab=config['vocab_size'], norm_eps=config['rms_norm_eps'])
  except KeyError as error:
    raise ValueError(f'config.json: has no {error.args[0]}') from error
  act = get('hidden_activation', 'hidden_act')
  if act not in _ACTIVATIONS:
    raise ValueError(f'config.json: hidden_act={act!r} is none of {", ".join(_ACTIVATIONS)}')
  local, window = _local(config, family, layers)
  usual, near = _rope(config, gemma)
  # Gemma's numbers where a file leaves them out; the others' follow from the width.
  head_dim = get('head_dim') or (256 if gemma else hidden // heads)
  scalar = config.get('query_pre_attn_scalar', 256) if gemma else head_dim
  bias = ('query', 'key', 'value') if family == 'qwen2' else ()
  if config.get('attention_bias'):
    bias = ('query', 'key', 'value', 'output')
  if config.get('mlp_bias'):
    bias += ('gate', 'up', 'down')
  return arch.Shape(
      **sizes, kv_heads=get('num_key_value_heads') or heads, head_dim=head_dim,
      tied=bool(config.get('tie_word_embeddings', gemma)),
      qk_norm=family in ('qwen3', 'gemma3_text'), theta=usual[0], scaling=usual[1],
      activation=_ACTIVATIONS[act], bias=bias, sandwich=gemma,
      embed_scale=float(hidden) ** 0.5 if gemma else 1.0,
      score_scale=0.0 if scalar == head_dim else float(scalar) ** -0.5,
      local=local, window=window, local_theta=near if local else 0.0, **how)


def _local(config, family, layers):
  """Indices of the layers that see a window, and its size."""
  window = config.get('sliding_window')
  if family == 'llama' or not window:
    return (), 0
  kinds = config.get('layer_types')
  if kinds is None and family == 'gemma3_text':
    every = config.get('sliding_window_pattern', 6)
    kinds = ['full_attention' if (i + 1) % every == 0 else 'sliding_attention'
             for i in range(layers)]
  elif kinds is None:
    first = config.get('max_window_layers', 28) if config.get('use_sliding_window') else layers
    kinds = ['sliding_attention' if i >= first else 'full_attention' for i in range(layers)]
  if len(kinds) != layers or not set(kinds) <= {'full_attention', 'sliding_attention'}:
    raise ValueError(f'config.json: layer_types={kinds!r} does not name {layers} layers of '
                     'full_attention or sliding_attention')
  local = tuple(i for i, kind in enumerate(kinds) if kind == 'sliding_attention')
  return local, window if local else 0


def _rope(config, gemma):
  """((base, scaling) of the usual layers, base of the local ones or 0)."""
  new = config.get('rope_parameters') or {}
  if gemma:
    usual = dict(new.get('full_attention') or config.get('rope_scaling') or {})
    usual.setdefault('rope_theta', config.get('rope_theta', 1e6))
    near = (new.get('sliding_attention') or {})
    if near.get('rope_type', 'default') != 'default':
      raise ValueError(f'config.json: rope_parameters of sliding_attention {near} is not supported')
    base = near.get('rope_theta', config.get('rope_local_base_freq', 1e4))
    return _scaling(usual, config), float(base)
  usual = dict(new or config.get('rope_scaling') or {})
  usual.setdefault('rope_theta', config.get('rope_theta', 1e4))
  return _scaling(usual, config), 0.0


def _scaling(rope, config):
  """(base, scaling of arch.Shape) of one dict of rotary parameters."""
  name = rope.get('rope_type', rope.get('type', 'default'))
  base = float(rope['rope_theta'])
  if name in ('default', None):
    return base, ()
  if name not in arch.SCALINGS or rope.get('partial_rotary_factor', 1) != 1:
    raise ValueError(f'config.json: rotary scaling {rope!r} is not supported; those known are '
                     f'{", ".join(arch.SCALINGS)}')
  if rope.get('mscale') or rope.get('mscale_all_dim') or rope.get('truncate', True) is not True:
    raise ValueError(f'config.json: yarn with mscale or without truncate is not supported: {rope}')
  usual = dict(beta_fast=32.0, beta_slow=1.0, attention_factor=0.0,
               original_max_position_embeddings=config.get('max_position_embeddings'))
  numbers = [rope[k] if rope.get(k) is not None else usual.get(k) for k in arch.SCALINGS[name]]
  if None in numbers:
    raise ValueError(f'config.json: rotary scaling {rope!r} lacks one of '
                     f'{", ".join(arch.SCALINGS[name])}')
  return base, (name, *(float(x) for x in numbers))


def config_of(config: Mapping[str, Any], shape: arch.Shape) -> dict[str, Any]:
  """The config.json to write: the one that was read, if it still describes the shape.

  Raises:
    ValueError: it does not; names the fields.
  """
  same = {k: getattr(shape, k) for k in ('dtype', 'scan', 'remat', 'rank', 'alpha')}
  read = dataclasses.asdict(shape_of(config, **same))
  wrong = [k for k, v in dataclasses.asdict(shape).items() if read[k] != v]
  if wrong:
    raise ValueError(f'the config to write says otherwise than the model in {", ".join(wrong)}')
  out = dict(config)
  out.setdefault('architectures', [FAMILIES[config['model_type']]])
  return out


def tensors(shape: arch.Shape, family: str) -> dict[str, Tensor]:
  """Every tensor that a file of this family must hold, by its name there."""
  gemma = family == 'gemma3_text'
  norm = 'norm' if gemma else 'plain'
  D, heads, stored = (shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim)
  sizes = dict(query=(heads, D), key=(stored, D), value=(stored, D), output=(D, heads),
               gate=(shape.mlp, D), up=(shape.mlp, D), down=(D, shape.mlp))
  out = {'model.embed_tokens.weight': Tensor(('embed', 'embedding'), (shape.vocab, D), 'plain'),
         'model.norm.weight': Tensor(('norm', 'scale'), (D,), norm)}
  if not shape.tied:
    out['lm_head.weight'] = Tensor(('head', 'kernel'), (shape.vocab, D), 'matrix')
  norms = {('attention', 'norm'): 'input_layernorm',
           ('mlp', 'norm'): 'pre_feedforward_layernorm' if gemma else 'post_attention_layernorm'}
  if gemma:
    norms |= {('attention', 'after'): 'post_attention_layernorm',
              ('mlp', 'after'): 'post_feedforward_layernorm'}
  for i in range(shape.layers):
    top, at = f'model.layers.{i}', ('layers', str(i))
    for path, name in norms.items():
      out[f'{top}.{name}.weight'] = Tensor((*at, *path, 'scale'), (D,), norm)
    for part, name in _PROJECTIONS.items():
      path = (*at, 'attention' if 'attn' in name else 'mlp', part)
      out[f'{top}.{name}.weight'] = Tensor((*path, 'kernel'), sizes[part], 'matrix')
      if part in shape.bias:
        out[f'{top}.{name}.bias'] = Tensor((*path, 'bias'), sizes[part][:1], 'plain')
    for part in ('query', 'key') if shape.qk_norm else ():
      out[f'{top}.self_attn.{part[0]}_norm.weight'] = Tensor(
          (*at, 'attention', f'{part}_norm', 'scale'), (shape.head_dim,), norm)
  return out
