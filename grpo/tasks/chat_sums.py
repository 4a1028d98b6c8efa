"""Sums of two one-digit numbers, asked of a language model through its own chat template.

A prompt is a chat of one question, `7 + 5 =` with the words of the field `question`, rendered and
tokenized once for each of the 100 pairs. The model writes up to `action` tokens and ends its answer
with its stop token.

What counts as the answer is the last number of the text: the last longest run of digits, read as a
number. `12`, `The sum is 12.` and `7 + 5 = 12` are right, `12, or 13` and `1 2` are not. Signs,
points and commas are no part of a number; a run of more than nine digits is none. Success and
reward are 1 if that number is the sum and the model ended the answer itself, else 0. The rule reads
tokens, but it is a rule about text: whatever tokens the digits are cut into, alone, several in one,
or together with other characters, the result is that of decoding and reading (tests compare).

Train and held-out pairs never meet: a pair is held out when pi(a) + pi(b), with the shuffle of
tasks/arithmetic.py, is a multiple of 5. These are 20 of the 100 pairs, and `3 + 4` is on the same
side as `4 + 3`. The knob `heldout` draws from them.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np

from grpo import types
from grpo.tasks import arithmetic
from grpo.tasks import base

__all__ = ['make', 'State', 'Reading', 'reading', 'last_number', 'number_in', 'padded']

_LONGEST = 9  # digits of a number that still counts; it fits in 32 bits


@types.pytree
class State:
  """One pair of numbers, as its place in the table."""
  index: jax.Array  # int32 []


@types.pytree
class Reading:
  """What each token does to a reader of numbers, [V] each.

  A token's text is digits, then perhaps other characters, then perhaps a last run of digits.
  """
  head: jax.Array         # int32; value of the leading digits, which continue an open number
  head_length: jax.Array  # int32; how many
  breaks: jax.Array       # bool; there is another character (or no text at all)
  tail: jax.Array         # int32; value of the last run of digits behind the first break
  tail_length: jax.Array  # int32; 0 where there is none
  open: jax.Array         # bool; the text ends in a digit


def reading(texts) -> Reading:
  """What each token does, from its text."""
  rows = []
  for text in texts:
    head = re.match('[0-9]*', text).group()
    rest = text[len(head):]
    runs = re.findall('[0-9]+', rest)
    value = lambda run: int(run) if 0 < len(run) <= _LONGEST else 0
    rows.append((value(head), len(head), bool(rest) or not text, value(runs[-1] if runs else ''),
                 len(runs[-1]) if runs else 0, text[-1:].isascii() and text[-1:].isdigit()))
  columns = [np.asarray(x) for x in zip(*rows, strict=True)]
  kinds = (np.int32, np.int32, bool, np.int32, np.int32, bool)
  return Reading(*(jnp.asarray(x.astype(k)) for x, k in zip(columns, kinds, strict=True)))


def last_number(words: Reading, tokens, valid):
  """The last number of a text, -1 if there is none; int32 [] from int32 [A] and bool [A]."""
  def read(carry, token):
    value, length, is_open, = carry
    index, real = token
    at = jax.tree.map(lambda x: x[index], words)
    joined = is_open & (at.head_length > 0)
    grown = value * 10 ** jnp.minimum(at.head_length, _LONGEST) + at.head
    long = jnp.where(joined, length, 0) + at.head_length
    new = jnp.where(at.head_length > 0, jnp.where(joined, grown, at.head), value)
    new_length = jnp.where(at.head_length > 0, long, length)
    new = jnp.where(at.tail_length > 0, at.tail, new)
    new_length = jnp.where(at.tail_length > 0, at.tail_length, new_length)
    out = (new, jnp.minimum(new_length, _LONGEST + 1), at.open)
    return jax.tree.map(lambda a, b: jnp.where(real, a, b), out, carry), None

  start = jnp.int32(0), jnp.int32(0), jnp.asarray(False)
  (value, length, _), _ = jax.lax.scan(read, start, (tokens, valid))
  return jnp.where((length > 0) & (length <= _LONGEST), value, -1)


def number_in(text: str) -> int:
  """The same rule on text (host side)."""
  runs = re.findall('[0-9]+', text)
  return int(runs[-1]) if runs and len(runs[-1]) <= _LONGEST else -1


def make(*, tokenizer, size: int, question: str = '{a} + {b} =', system: str = '',
         shots: int = 0, action: int = 12) -> base.Task:
  """The task for one model.

  Args:
    tokenizer: of the model: encode, render, texts and stops, see models/tokenizer.py.
    size: tokens that the model knows.
    question: what the user says, with {a} and {b}.
    system: what stands in the system turn; '' leaves it to the template.
    shots: solved examples in front, the same for all prompts: 3 + 4, 8 + 6, 2 + 1, ...
    action: most tokens of an answer, stop included.
  """
  if not ('{a}' in question and '{b}' in question):
    raise ValueError(f'task.question must hold {{a}} and {{b}}, got {question!r}')
  if action < 2 or not 0 <= shots <= len(_SHOWN):
    raise ValueError(f'task.action must be at least 2 and task.shots 0 to {len(_SHOWN)}, got '
                     f'{action} and {shots}')
  pairs = [(a, b) for a in range(10) for b in range(10)]
  opening = [dict(role='system', content=system)] if system else []
  for a, b in _SHOWN[:shots]:
    opening += [dict(role='user', content=question.format(a=a, b=b)),
                dict(role='assistant', content=str(a + b))]
  encode = lambda a, b: tokenizer.encode(tokenizer.render(
      [*opening, dict(role='user', content=question.format(a=a, b=b))]))
  prompts, valid = padded([encode(a, b) for a, b in pairs], left=True)
  written = [[*tokenizer.encode(str(a + b)), tokenizer.stops[0]] for a, b in pairs]
  expert, expert_valid = padded(written, left=False, width=action)
  answers = np.asarray([a + b for a, b in pairs], np.int32)
  marks = np.asarray([arithmetic.SHUFFLE[a] + arithmetic.SHUFFLE[b] for a, b in pairs])
  held = marks % arithmetic.FOLDS == 0
  held_out, trained = (np.flatnonzero(x).astype(np.int32) for x in (held, ~held))
  words = reading(tokenizer.texts(size))
  stops = np.asarray(tokenizer.stops, np.int32)
  pick = lambda table, index: jnp.asarray(table)[index]

  def reset(key, knobs):
    draw = jax.random.randint(key, (), 0, len(held_out) * len(trained))
    index = jnp.where(jnp.asarray(knobs['heldout'], jnp.float32) > 0,
                      pick(held_out, draw % len(held_out)), pick(trained, draw % len(trained)))
    return State(index), pick(prompts, index), pick(valid, index)

  def step(state, tokens, real, knobs):
    last = jnp.maximum(jnp.sum(real) - 1, 0)
    ended = jnp.any(real) & jnp.any(tokens[last] == jnp.asarray(stops))
    body = real & (jnp.arange(action) < last + ~ended)
    right = ended & (last_number(words, tokens, body) == pick(answers, state.index))
    score = right.astype(jnp.float32)
    return base.Step(state, jnp.zeros(0, jnp.int32), jnp.zeros(0, bool), score, score,
                     jnp.asarray(True), jnp.asarray(False))

  return base.Task(
      vocab=tokenizer.texts(size), glue='', prompt_len=prompts.shape[1], action_len=action,
      observation_len=0, max_turns=1, stop_ids=tuple(tokenizer.stops), knobs=dict(heldout=0),
      reset=reset, reseed=lambda state, key: state, step=step,
      state_id=lambda state: state.index.astype(jnp.uint32) + jnp.uint32(1),
      expert=lambda state, key: (pick(expert, state.index), pick(expert_valid, state.index)),
      prompt_space=len(trained))


_SHOWN = ((3, 4), (8, 6), (2, 1), (9, 9))


def padded(rows, *, left: bool, width: int | None = None):
  """Rows of ids as one array, as wide as the longest or as said, and which of it is real."""
  width = max(map(len, rows)) if width is None else width
  ids, valid = np.zeros((len(rows), width), np.int32), np.zeros((len(rows), width), bool)
  for i, row in enumerate(rows):
    if len(row) > width:
      raise ValueError(f'task.action={width} has no room for an answer of {len(row)} tokens')
    at = slice(width - len(row), width) if left else slice(0, len(row))
    ids[i, at], valid[i, at] = row, True
  return ids, valid
