"""Writes the policy of a run as a Hugging Face folder, which `transformers` and others load.

  python -m scripts.export --workdir=runs/llm --out=runs/llm/model
  python -m scripts.export --workdir=runs/llm --out=runs/llm/model --dtype=float32 --seed=1
  python -m scripts.export --workdir=runs/llm --out=runs/llm/adapter --form=adapters

The run must have started from a model folder (configs/llm.py). Adapters are merged into the
weights; the tokenizer and the chat template are those that the model came with. With
--form=adapters they are written by themselves, as `peft` does; --base names the model they belong
to, where that should not be the path that the run read. Another run starts from such a folder with
--config.model.adapter.
"""

import pathlib

from absl import flags

from scripts import cli

_WORKDIR = cli.folder_flag('workdir', 'Folder of a run by scripts.train.', required=True)
_OUT = cli.folder_flag('out', 'Folder to be made.', required=True)
_SEED = flags.DEFINE_integer('seed', None, 'Which seed of the run; the first by default.')
_FORM = flags.DEFINE_enum('form', 'merged', ['merged', 'adapters'], 'What is written.')
_BASE = flags.DEFINE_string('base', '', 'Of adapters: base_model_name_or_path.')
_DTYPE = flags.DEFINE_enum('dtype', 'bfloat16', ['float32', 'bfloat16'], 'Of the weights.')


def main(argv):
  del argv
  for name in ('config.json', 'adapter_config.json'):
    if (pathlib.Path(_OUT.value) / name).exists():
      raise cli.UsageError(f'--out={_OUT.value} holds a model already: choose another folder')
  if _BASE.value and _FORM.value != 'adapters':
    raise cli.UsageError('--base is written with --form=adapters only')
  from scripts import device
  device.prepare()
  import jax
  import numpy as np

  from grpo.learn import pretrained
  from grpo.study import evaluation
  config, seeds, step, state = evaluation.load(pathlib.Path(_WORKDIR.value))
  seed = seeds[0] if _SEED.value is None else _SEED.value
  if seed not in seeds:
    raise cli.UsageError(f'--seed={seed}: this run has {", ".join(map(str, seeds))}')
  index = seeds.index(seed)
  params = jax.tree.map(lambda x: np.asarray(x[index]), state.params)
  if _FORM.value == 'adapters':
    folder = pretrained.export_adapters(config, params, _OUT.value, _DTYPE.value, _BASE.value)
  else:
    folder = pretrained.export(config, params, _OUT.value, _DTYPE.value)
  print(f'wrote {folder}: seed {seed}, step {step}, {_DTYPE.value}')
  return 0


if __name__ == '__main__':
  cli.run(main)
