"""Questions in text, answered in text, and read by a verifier outside the program.

A prompt is a chat of one question, rendered and tokenized once for each problem. The model writes
up to `action` tokens; these are decoded on the host and scored there, by whatever `problems`
brings: numbers, formulas, unit tests in a sandbox (grpo/verify/). The program calls the host once a
step, with the answers of all prompts, samples and seeds, so that workers are busy together; the
same answer to the same problem has the same score at any time, so a resumed run is the same run.

Three numbers come back. The reward is what is trained on. Success is the score: with unit tests it
asks for those too that the reward does not know, so that learning them by heart shows as a gap. And
whether the answer could be scored at all: one that could not is no zero. The sampler takes all its
tokens off the mask, which keeps it out of the loss and out of the statistics of its group.

With `cut='wrong'` an answer that the model did not end itself earns 0, whatever stands in it: the
last number so far is not the last number. With 'scored' it is read as it stands.

Train and held-out problems never meet; `problems` says which are which. The knob `heldout` draws
from the latter, and the knob `problem`, where it is not -1, asks for that one.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grpo import types
from grpo.tasks import base
from grpo.tasks import chat_sums

__all__ = ['make', 'reader', 'State', 'CUT']

CUT = ('wrong', 'scored')


@types.pytree
class State:
  """One problem, as its place in the table, and whether its answer could be scored."""
  index: jax.Array   # int32 []
  scored: jax.Array  # bool []


def make(*, tokenizer, size: int, problems: Any, system: str = '', action: int = 64,
         cut: str = 'wrong') -> base.Task:
  """The task for one model.

  Args:
    tokenizer: of the model: encode, decode, render, texts and stops, see models/tokenizer.py.
    size: tokens that the model knows.
    problems: questions, answers, held (bool, one each) and grade: (texts, rows) -> (rewards f32,
      success f32, scored bool), see verify/problems.py.
    system: what stands in the system turn; '' leaves it to the template.
    action: most tokens of an answer, stop included.
    cut: 'wrong' or 'scored', what becomes of an answer without its stop.
  """
  if action < 2 or cut not in CUT:
    raise ValueError(f'task.action must be at least 2, and task.cut one of {", ".join(CUT)}; got '
                     f'{action} and {cut!r}')
  held = np.asarray(problems.held, bool)
  held_out, trained = (np.flatnonzero(x).astype(np.int32) for x in (held, ~held))
  if not len(held_out) or not len(trained):
    raise ValueError(f'task.problems: needs problems to train on and held-out ones, got '
                     f'{len(trained)} and {len(held_out)}')
  opening = [dict(role='system', content=system)] if system else []
  asked_in = lambda question: tokenizer.encode(tokenizer.render(
      [*opening, dict(role='user', content=question)]))
  prompts, valid = chat_sums.padded([asked_in(x) for x in problems.questions], left=True)
  # What the scripted expert writes; where it has no room it is cut, and fails.
  written = [[*tokenizer.encode(answer), tokenizer.stops[0]][:action]
             for answer in problems.answers]
  expert, expert_valid = chat_sums.padded(written, left=False, width=action)
  read = reader(tokenizer, problems.grade, cut)
  pick = lambda table, index: jnp.asarray(table)[index]

  def reset(key, knobs):
    draw = jax.random.randint(key, (), 0, len(held_out) * len(trained))
    index = jnp.where(jnp.asarray(knobs['heldout'], jnp.float32) > 0,
                      pick(held_out, draw % len(held_out)), pick(trained, draw % len(trained)))
    asked = jnp.asarray(knobs['problem'], jnp.int32)  # a setting comes as a float
    index = jnp.where(asked < 0, index, asked)
    return State(index, jnp.asarray(True)), pick(prompts, index), pick(valid, index)

  def step(state, tokens, real, knobs):
    scalar = lambda kind: jax.ShapeDtypeStruct((), kind)
    reward, success, scored = jax.pure_callback(
        read, (scalar(jnp.float32), scalar(jnp.float32), scalar(bool)), tokens, real, state.index,
        vmap_method='broadcast_all')
    return base.Step(State(state.index, scored), jnp.zeros(0, jnp.int32), jnp.zeros(0, bool),
                     reward, success, jnp.asarray(True), jnp.asarray(False))

  return base.Task(
      vocab=tokenizer.texts(size), glue='', prompt_len=prompts.shape[1], action_len=action,
      observation_len=0, max_turns=1, stop_ids=tuple(tokenizer.stops),
      knobs=dict(heldout=0, problem=-1), reset=reset, reseed=lambda state, key: state, step=step,
      state_id=lambda state: state.index.astype(jnp.uint32) + jnp.uint32(1),
      expert=lambda state, key: (pick(expert, state.index), pick(expert_valid, state.index)),
      scored=lambda state: state.scored, prompt_space=len(trained))


def reader(tokenizer, grade: Callable, cut: str) -> Callable:
  """What the program calls: (tokens [...,A], real [...,A], rows [...]) -> three arrays [...].

  It runs while the program waits for it, so nothing in it may ask JAX for anything: arguments are
  made NumPy arrays, and stay that. Equal answers to one problem are graded once.
  """
  def read(tokens, real, rows):
    tokens, real, rows = np.asarray(tokens), np.asarray(real), np.asarray(rows)
    shape, width = rows.shape, tokens.shape[-1]
    ids = [row[on] for row, on in zip(tokens.reshape(-1, width), real.reshape(-1, width))]
    open_ = np.array([cut == 'wrong' and not (len(x) and x[-1] in tokenizer.stops) for x in ids])
    pairs = [(int(row), tokenizer.decode(x)) for row, x in zip(rows.reshape(-1), ids)]
    asked = list(dict.fromkeys(p for p, skip in zip(pairs, open_) if not skip))
    graded = grade([text for _, text in asked], [row for row, _ in asked]) if asked else ((),) * 3
    found = dict(zip(asked, zip(*graded, strict=True), strict=True))
    each = [(0.0, 0.0, True) if skip else found[p] for p, skip in zip(pairs, open_)]
    reward, success, scored = (np.array(x).reshape(shape) for x in zip(*each))
    reward, success = (np.where(scored, x, 0).astype(np.float32) for x in (reward, success))
    return reward, success, scored.astype(bool)

  return read
