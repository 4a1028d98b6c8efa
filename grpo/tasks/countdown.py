"""Tier 1: reach a target with the given numbers. Many answers are right.

The prompt shows numbers of one digit and a target of two: `3 5 2 > 1 6 :`. The answer is an
expression in postfix notation that uses each number exactly once, ended by the stop token:
`3 5 + 2 * .` is (3 + 5) * 2 = 16, and so are `5 3 + 2 * .` and `2 5 3 + * .`. There are `+`, `-`
and `*`, no division; what lies between may be negative. Success is 1 if the value is the target.
There is one turn, no observation and no noise.

Instances are made from left to right, with every value in 0 to 99, so a solution exists and the
expert knows it: the ceiling is 1.

Knobs: `numbers` (2 to max_numbers), `products` (probability that a step is a product where that
stays below 100, 0 to 1), `mixed` (probability that the numbers are shown in rising order instead of
the order in which the target was made: then the order has to be searched too), `form` (share of the
reward that any legal expression earns, 0 to 1), `heldout`. A fifth of all sets of numbers is held
out: the sum of pi(number) over the set is a multiple of 5, with pi a fixed shuffle.

Floors, for two numbers without products, and for three with products = 0.5 and mixed = 1: uniform
tokens pass in less than 0.0001 of 100,000 episodes; stop at once: 0; `9 1 + .` whatever the prompt
says: about 0.02 of the easy ones. Adding up all numbers reaches 0.50 and 0.12, so the score of two
numbers without products starts half-way for who can copy. With form = w, any legal expression earns
w, whatever it is worth.
"""

import jax
import jax.numpy as jnp

from grpo import types
from grpo.tasks import arithmetic
from grpo.tasks import base

__all__ = ['make', 'evaluate', 'State']

VOCAB = tuple('_ 0 1 2 3 4 5 6 7 8 9 + - * > : .'.split())
DIGIT, PLUS, MINUS, TIMES, ARROW, COLON, STOP = 1, 11, 12, 13, 14, 15, 16
LARGEST = 99  # of a target, and of the values on the way to it


@types.pytree
class State:
  """One instance."""
  numbers: jax.Array  # int32 [M]; 1 to 9, 0 where there is none
  target: jax.Array   # int32 []; 0 to 99
  answer: jax.Array   # int32 [2 M]; the expression that made it, 0 after the stop token


def evaluate(tokens, numbers):
  """Value of a postfix expression that uses each number once.

  Args:
    tokens: int32 [A]; what follows the first stop token is ignored.
    numbers: int32 [M]; 0 is none.

  Returns:
    int32 [], the value, and bool [], whether the expression is legal and stopped. Where it is not,
    the value means nothing.
  """
  digits = jnp.arange(10)

  def read(carry, token):
    stack, size, left, legal, stopped = carry
    digit, binary = token - DIGIT, (token >= PLUS) & (token <= TIMES)
    number = (digit >= 0) & (digit <= 9)
    b, a = stack[0], stack[1]
    value = jnp.where(token == PLUS, a + b, jnp.where(token == MINUS, a - b, a * b))
    below = jnp.concatenate([stack[2:], jnp.zeros(2, jnp.int32)])
    new = jnp.where(number, jnp.concatenate([digit[None], stack[:-1]]),
                    jnp.concatenate([value[None], below[:-1]]))
    used = number & (digit == digits)
    fine = (number & ~jnp.any(used & (left == 0))) | (binary & (size >= 2))
    stop = stopped | (token == STOP)
    return (jnp.where(stop, stack, new), jnp.where(stop, size, size + jnp.where(number, 1, -1)),
            jnp.where(stop, left, left - used), legal & (stop | fine), stop), None

  left = ((numbers[:, None] == digits[None]) & (numbers[:, None] > 0)).sum(0)
  start = (jnp.zeros(max(2, numbers.shape[0]), jnp.int32), jnp.int32(0), left, jnp.asarray(True),
           jnp.asarray(False))
  (stack, size, left, legal, stopped), _ = jax.lax.scan(read, start, tokens)
  return stack[0], legal & stopped & (size == 1) & jnp.all(left == 0)


def make(*, max_numbers: int = 3) -> base.Task:
  """Targets made of up to `max_numbers` numbers, 2 to 6. `numbers` defaults to the largest."""
  if not 2 <= max_numbers <= 6:
    raise ValueError(f'countdown: max_numbers must be 2 to 6, got {max_numbers}')
  M = max_numbers
  prompt_len = M + 4
  marks = jnp.asarray(arithmetic.SHUFFLE, jnp.int32)

  def reset(key, knobs):
    n = jnp.clip(jnp.asarray(knobs['numbers'], jnp.int32), 2, M)
    products, mixed, heldout = (jnp.asarray(knobs[k], jnp.float32)
                                for k in ('products', 'mixed', 'heldout'))
    draw = jax.random.uniform(key, (3 * M + 10,))
    place = jnp.arange(M)
    numbers = 1 + jnp.minimum((draw[:M] * 9).astype(jnp.int32), 8)
    # The last number is drawn last: among those that put the set on its side.
    mark = jnp.sum(jnp.where(place < n - 1, marks[numbers], 0))
    aside = (mark + marks[1:]) % arithmetic.FOLDS == 0
    last = 1 + jnp.argmax(jnp.where(aside == (heldout > 0), draw[M:M + 9], -1.0)).astype(jnp.int32)
    numbers = jnp.where(place < n - 1, numbers, jnp.where(place == n - 1, last, 0))
    # The larger one of the first two comes first, so that a difference is as likely as a sum.
    numbers = jnp.concatenate([jnp.sort(numbers[:2], descending=True), numbers[2:]])

    value, answer = numbers[0], [DIGIT + numbers[0]]
    for i in range(1, M):
      x, (times, minus) = numbers[i], draw[M + 7 + 2 * i:M + 9 + 2 * i]
      product = (times < products) & (value * x <= LARGEST)
      less = (value >= x) & ((minus < 0.5) | (value + x > LARGEST))
      sign = jnp.where(product, TIMES, jnp.where(less, MINUS, PLUS))
      new = jnp.where(product, value * x, jnp.where(less, value - x, value + x))
      value = jnp.where(i < n, new, value)
      answer += [DIGIT + x, sign]
    p = jnp.arange(2 * M)
    answer = jnp.stack([*answer, jnp.int32(STOP)]).astype(jnp.int32)
    answer = jnp.where(p < 2 * n - 1, answer, jnp.where(p == 2 * n - 1, STOP, 0))

    rising = jnp.sort(jnp.where(numbers > 0, numbers, 10))
    shown = jnp.where((draw[-1] < mixed) & (place < n), rising, numbers)
    end = jnp.stack([jnp.int32(ARROW), DIGIT + value // 10, DIGIT + value % 10, jnp.int32(COLON)])
    shown = jnp.roll(jnp.where(shown > 0, DIGIT + shown, 0), M - n)
    prompt = jnp.concatenate([shown, end]).astype(jnp.int32)
    return State(numbers, value, answer), prompt, prompt > 0

  def step(state, action, valid, knobs):
    form = jnp.asarray(knobs['form'], jnp.float32)
    value, legal = evaluate(jnp.where(valid, action, 0), state.numbers)
    success = (legal & (value == state.target)).astype(jnp.float32)
    reward = form * legal.astype(jnp.float32) + (1 - form) * success
    return base.Step(state, jnp.zeros(0, jnp.int32), jnp.zeros(0, bool), reward, success,
                     jnp.asarray(True), jnp.asarray(False))

  def state_id(state):
    """1 + the numbers in rising order and the target, written as one decimal number."""
    scale = jnp.asarray([10**(i + 2) for i in range(M)], jnp.int32)
    return (1 + jnp.sum(jnp.sort(state.numbers) * scale) + state.target).astype(jnp.uint32)

  def expert(state, key):
    del key
    return state.answer, state.answer > 0

  return base.Task(
      vocab=VOCAB, prompt_len=prompt_len, action_len=2 * M, observation_len=0, max_turns=1,
      stop_ids=(STOP,), knobs=dict(numbers=M, products=0.0, mixed=0.0, form=0.0, heldout=0),
      reset=reset, reseed=lambda state, key: state, step=step, state_id=state_id, expert=expert)
