"""Weights that a run starts from, where its model comes from a file."""

from collections.abc import Mapping
import dataclasses
import functools
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grpo import build
from grpo.models import adapters
from grpo.models import hf
from grpo.models import peft

__all__ = ['load', 'whole', 'export', 'export_adapters']


@functools.lru_cache(maxsize=1)
def _read(text: str) -> hf.Model:
  fields = json.loads(text)
  return hf.read(fields.pop('path'), **fields)


def _text(c: Mapping[str, Any]) -> str:
  """What `_read` needs to know of a config."""
  rest = {k: v for k, v in c['model'].items() if k not in ('name', 'adapter')}
  return json.dumps(rest, sort_keys=True)


def _model(c: Mapping[str, Any]) -> hf.Model:
  return _read(_text(c))


@functools.lru_cache(maxsize=1)
def _frozen(text: str):
  model = _read(text)
  return jax.device_put(adapters.frozen(model.shape, model.params))


def load(config, seeds: int):
  """(trained parameters with a leading seed axis or None, frozen parameters or None).

  A model that is made here has neither. With adapters the weights of the file are frozen, and
  shared by all seeds; without, they are what is trained. Adapters are fresh, which None stands for,
  or those of the folder `model.adapter`.
  """
  c = build.plain(config)
  if c['model']['name'] != 'hf':
    return None, None
  each = lambda tree: jax.tree.map(lambda x: np.broadcast_to(x, (seeds, *x.shape)), tree)
  if not c['model']['rank']:
    return each(_model(c).params), None
  given = None
  if c['model']['adapter']:
    model = _model(c)
    given = each(peft.read(c['model']['adapter'], model.shape, model.config['model_type']))
  return given, _frozen(_text(c))


def whole(config, params):
  """(config, parameters of one seed) of the same policy without adapters; others as they are."""
  c = build.plain(config)
  if c['model']['name'] != 'hf' or not c['model']['rank']:
    return c, params
  model = _model(c)
  params = adapters.merged(model.shape, jax.tree.map(jnp.asarray, model.params), params)
  return c | dict(model=c['model'] | dict(rank=0)), params


def export(config, params, folder, dtype: str = 'float32'):
  """Writes the policy of one seed as a folder that `transformers` loads; adapters are merged.

  Args:
    config: of the run.
    params: parameters of one seed.
    folder: to be made.
    dtype: of the weights in it.
  """
  c = build.plain(config)
  if c['model']['name'] != 'hf':
    raise ValueError('only a model that came from a file can be written as one')
  model, params = _model(c), jax.device_get(whole(c, params)[1])
  shape = dataclasses.replace(model.shape, rank=0)
  return hf.write(folder, hf.Model(shape, params, model.config, model.path), dtype=dtype)


def export_adapters(config, params, folder, dtype: str = 'float32', base: str = ''):
  """Writes the adapters of one seed as a folder that `peft` loads.

  Args:
    config: of the run.
    params: adapters of one seed.
    folder: to be made.
    dtype: of the adapters in it.
    base: name of the model that they belong to; left out, the path that the run read it from.
  """
  c = build.plain(config)
  if c['model']['name'] != 'hf' or not c['model']['rank']:
    raise ValueError('only a run with adapters (model.rank above 0) has some to write')
  model = _model(c)
  return peft.write(folder, model.shape, model.config['model_type'], params, dtype=dtype,
                    base=base or str(c['model']['path']))
