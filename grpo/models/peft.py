"""Adapters in and out, as a folder of the library `peft`: adapter_config.json and safetensors.

There y = W x + (alpha / r) B A x with A [r, in] and B [out, r], each named after the tensor of the
base that it changes: `base_model.model.` + `model.layers.0.self_attn.q_proj` + `.lora_A.weight`.
Ours are those transposed. Only plain LoRA on all projections of all layers is read: what would
change the mathematics is refused by name.
"""

import functools
import json
import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grpo.models import arch
from grpo.models import blocks
from grpo.models import families
from grpo.models import hf

__all__ = ['write', 'read']

_CONFIG, _WEIGHTS = 'adapter_config.json', 'adapter_model.safetensors'
_PARTS = dict(adapter_in='lora_A', adapter_out='lora_B')
# Fields that must hold one of these values where they are there.
_ONLY = dict(peft_type=('LORA',), bias=('none',), fan_in_fan_out=(False,), use_rslora=(False,),
             use_dora=(False,), modules_to_save=(None, []), layers_to_transform=(None,),
             rank_pattern=({}, None), alpha_pattern=({}, None), lora_bias=(False,),
             layer_replication=(None,), alora_invocation_tokens=(None,), megatron_config=(None,),
             target_parameters=(None, []), use_qalora=(False,), trainable_token_indices=(None,))


def _places(shape: arch.Shape, family: str):
  """(name in the file, path of our parameter, shape in the file) of every matrix of an adapter."""
  for name, tensor in families.tensors(shape, family).items():
    if tensor.path[0] != 'layers' or tensor.kind != 'matrix':
      continue
    stem, (outputs, inputs) = name.removesuffix('.weight'), tensor.shape
    for part, word in _PARTS.items():
      size = (shape.rank, inputs) if word == 'lora_A' else (outputs, shape.rank)
      yield f'base_model.model.{stem}.{word}.weight', (*tensor.path[:-1], part), size


def write(folder: str | os.PathLike, shape: arch.Shape, family: str, params: Any, *, base: str,
          dtype: str = 'float32') -> pathlib.Path:
  """Writes adapters as a folder that `peft` loads on their base.

  Args:
    folder: made if missing; one that holds an adapter_config.json already is refused.
    shape: of the model, with its rank and alpha.
    family: model_type of its config.json.
    params: adapters, layers apart or stacked.
    base: name or folder of the model they belong to, for `base_model_name_or_path`.
    dtype: float32 or bfloat16, of the adapters in the file.

  Returns:
    The folder.
  """
  folder = pathlib.Path(folder)
  if (folder / _CONFIG).exists():
    raise ValueError(f'{folder} holds adapters already: choose another folder')
  folder.mkdir(parents=True, exist_ok=True)
  layers = jax.device_get(params['layers'])
  tree = dict(layers=blocks.unstack(layers) if shape.scan else layers)
  tensors, targets = {}, set()
  for name, path, _ in _places(shape, family):
    x = functools.reduce(lambda node, part: node[part], path, tree)
    tensors[name] = np.ascontiguousarray(np.asarray(x, np.float32).T.astype(jnp.dtype(dtype)))
    targets.add(name.split('.')[-3])
  hf.library('safetensors.numpy').save_file(tensors, folder / _WEIGHTS, metadata=dict(format='pt'))
  (folder / _CONFIG).write_text(json.dumps(dict(
      peft_type='LORA', task_type='CAUSAL_LM', base_model_name_or_path=base, r=shape.rank,
      lora_alpha=shape.alpha, lora_dropout=0.0, bias='none', target_modules=sorted(targets),
      fan_in_fan_out=False, inference_mode=True, init_lora_weights=True, modules_to_save=None,
      rank_pattern={}, alpha_pattern={}, use_rslora=False, use_dora=False), indent=2) + '\n',
                                 encoding='utf-8')
  return folder


def read(folder: str | os.PathLike, shape: arch.Shape, family: str) -> dict[str, Any]:
  """Adapters of a folder as parameters, float32 NumPy arrays.

  Raises:
    ValueError: no such folder, another kind of adapter, another rank or alpha than the shape's, or
      tensors that are missing, unknown, mis-shaped or not finite; names them.
  """
  folder = pathlib.Path(folder)
  try:
    config = json.loads((folder / _CONFIG).read_text(encoding='utf-8'))
    tensors = hf.library('safetensors.numpy').load_file(folder / _WEIGHTS)
  except OSError as error:
    raise ValueError(f'model.adapter={folder}: no folder with {_CONFIG} and {_WEIGHTS}; {error}'
                     ) from error
  for field, allowed in _ONLY.items():
    if field in config and config[field] not in allowed:
      raise ValueError(f'{folder / _CONFIG}: {field}={config[field]!r} is not supported')
  for field, value, name in (('r', shape.rank, 'rank'), ('lora_alpha', shape.alpha, 'alpha')):
    if config.get(field) != value:
      raise ValueError(f'{folder / _CONFIG}: {field}={config.get(field)}, and model.{name}={value}')
  places = list(_places(shape, family))
  names = {name for name, _, _ in places}
  faults = [f'{what}: {", ".join(sorted(found)[:4])}' for what, found in (
      ('missing', names - tensors.keys()), ('unknown', tensors.keys() - names)) if found]
  faults += [f'{name} is {list(tensors[name].shape)}, should be {list(size)}'
             for name, _, size in places if name in tensors and tensors[name].shape != size]
  if faults:
    raise ValueError(f'{folder / _WEIGHTS} does not fit the model. {". ".join(faults[:6])}')
  out: dict[str, Any] = {}
  for name, path, _ in places:
    x = np.asarray(tensors[name], np.float32)
    if not np.isfinite(x).all():
      raise ValueError(f'{folder / _WEIGHTS}: {name} holds numbers that are not finite')
    node = out
    for part in path[:-1]:
      node = node.setdefault(part, {})
    node[path[-1]] = np.ascontiguousarray(x.T)
  return out | dict(layers=hf.stacked(out['layers'])) if shape.scan else out
