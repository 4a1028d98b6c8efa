"""Tier 2: write a program that passes hidden unit tests.

The prompt shows a function f of two digits by examples, `3 4 > 7  9 5 > 4 ... :`. The action is a
program in a small stack language, ended by the stop token; numbers are digits and arithmetic is
modulo 10. It runs on hidden tests: inputs that the prompt does not show. Success is 1 if every test
passes. Reward is partial * (share passed) + (1 - partial) * success.

Language: `0`-`9`, `x`, `y` push; `dup`, `over` copy the top or the value below it; `swap`, `drop`;
`add sub mul mod max min` replace a, b (b on top) by a op b. `again` drops the top and, if it was
not 0, goes back to the last `begin` before it, or to the first token if there is none, with the
stack as it is; `begin` does nothing else. So `x y begin swap over mod dup again drop .` is the
greatest common divisor, where y is not 0. The result is the top of the stack at the stop token. Too
few values, too many (more than 6), mod by 0, any other token, an empty stack at the end, and no
stop within 64 tokens run are faults; a test on which the program faults is failed. So an endless
loop is stopped, by that limit or by a full stack. A loop to the first token is always endless:
tokens that run on the empty stack do the same on any other. No target needs a loop.

Hidden targets are postfix expressions `x y add 3 mul`, with `ops` operators, distinct as functions:
no target equals another one at any input table, also not one with fewer operators. Constants, x, y
and functions that come close to one (same output on more than 45 % of all inputs) are left out. The
split goes by a hash of the input table: one function in five is held out, so no held-out function
is ever trained on, in whatever notation. Four examples fix a function of one operator in 98 % of
all instances; with the target known the expert always passes.

Floors, 100,000 episodes each with ops 1 and 2: 0 passes for uniform tokens, stop at once, each of
the ten constant programs, `x`, `y`, and the output of an example as a constant. The closest a
target comes to one of these is 45 % of the inputs, so about 0.45^12 < 1e-4 of the instances with 12
tests.
"""

import functools
import zlib

import jax
import jax.numpy as jnp
import numpy as np

from grpo import types
from grpo.tasks import base

__all__ = ['make', 'run', 'State']

MOD = 10
VOCAB = tuple(
    '_ 0 1 2 3 4 5 6 7 8 9 x y dup over swap drop add sub mul mod max min > : . begin again'
    .split())
ID = {word: i for i, word in enumerate(VOCAB)}
OPERATORS = ('add', 'sub', 'mul', 'mod', 'max', 'min')
INPUTS = np.stack(np.meshgrid(np.arange(MOD), np.arange(MOD), indexing='ij'), -1).reshape(-1, 2)
STEPS = 64        # tokens run on one input, the stop included: ten turns of a loop of six, and 4
FAULT, DONE = -1, -2  # where a program counter stands after the end
FOLDS = 5         # one function in five is held out
TOO_CLOSE = 0.45  # share of inputs on which a target may agree with a constant, with x or with y


@types.pytree
class State:
  """One instance."""
  target: jax.Array  # int32 []; row of the pool
  hidden: jax.Array  # int32 [tests]; inputs of the hidden tests, as rows of INPUTS


def run(program, x, y, *, depth: int = 6):
  """Runs one program on many inputs, with a program counter for each, up to STEPS tokens.

  Args:
    program: int32 [M], token ids, M from 1 to STEPS; what follows the first stop token is
      ignored.
    x: int32 [N], first inputs, digits.
    y: int32 [N], second inputs, digits.
    depth: values that the stack holds, 2 to 6.

  Returns:
    int32 [N], the results, and bool [N], whether the program ran to its stop without a fault. Where
    it did not, the result means nothing.
  """
  if not 2 <= depth <= 6:
    raise ValueError(f'programs: the stack must hold 2 to 6 values, got depth={depth}')
  if not 1 <= len(program) <= STEPS:
    raise ValueError(f'programs: a program has 1 to {STEPS} tokens, got {len(program)}')
  # Where `again` goes does not depend on the way that was taken to it: to the last `begin` before.
  back = jax.lax.cummax(jnp.where(program == ID['begin'], jnp.arange(len(program)), 0))
  code = jnp.where((program > 0) & (program < len(VOCAB)), program, 0) | back << 8

  # A stack is one integer, four bits a value, the top in the lowest, below the last value a 1; so
  # 16 ** size and more is a stack of at least that size. The counter has the seven bits above (64
  # becomes -64, a fault as well). One loop over all ticks and over one array, without gathers and
  # integer divisions by a variable: the obvious interpreter took seven times as long on a CPU.
  def tick(_, both_N):
    at_N, stack_N = both_N >> 25, both_N & (2**25 - 1)
    now = jnp.zeros_like(at_N)  # 0, a fault, after the last token and after the end
    for place, word in enumerate(code):
      now = jnp.where(at_N == place, word, now)
    token, mark = now & 255, now >> 8
    is_ = lambda *words: functools.reduce(jnp.logical_or, [token == ID[w] for w in words])
    digit, binary = (token >= ID['0']) & (token <= ID['9']), is_(*OPERATORS)
    push, jump = digit | is_('x', 'y', 'dup', 'over'), is_('again')
    drop = jump | is_('drop')

    b, a = stack_N & 15, (stack_N >> 4) & 15
    pushed = jnp.where(is_('x'), x, jnp.where(is_('y'), y, jnp.where(is_('dup'), b, a)))
    pushed = jnp.where(digit, token - ID['0'], pushed)
    value = jnp.where(is_('sub'), MOD + a - b, jnp.where(is_('mul'), a * b, a + b))
    value = jax.lax.rem(value, MOD)
    quotient = ((a + 0.5) / jnp.maximum(b, 1)).astype(jnp.int32)  # of digits: exact
    value = jnp.where(is_('mod'), a - b * quotient, value)
    value = jnp.where(is_('max'), jnp.maximum(a, b), value)
    value = jnp.where(is_('min'), jnp.minimum(a, b), value)

    need = jnp.where(binary | is_('over', 'swap'), 16**2, jnp.where(drop | is_('dup'), 16, 0))
    fine_N = ((push | binary | drop | is_('swap', 'begin')) & (stack_N >= need)
              & ~(push & (stack_N >= 16**depth)) & ~(is_('mod') & (b == 0)))
    new = jnp.where(push, stack_N << 4 | pushed, jnp.where(drop, stack_N >> 4, stack_N))
    new = jnp.where(binary, (stack_N >> 8) << 4 | value, new)
    new = jnp.where(is_('swap'), (stack_N >> 8) << 8 | b << 4 | a, new)
    going = jnp.where(jump & (b != 0), mark, at_N + 1)
    ended = jnp.where(is_('.') & (stack_N >= 16), DONE, jnp.minimum(at_N, FAULT))
    return jnp.where(fine_N, going << 25 | new, ended << 25 | stack_N)

  both_N = jax.lax.fori_loop(0, STEPS, tick, jnp.ones(x.shape, jnp.int32))
  return both_N & 15, both_N >> 25 == DONE


def make(*, max_ops: int = 1, examples: int = 4, tests: int = 12, pool: int = 1024) -> base.Task:
  """Functions of up to `max_ops` operators.

  Knobs: `ops` (1 to max_ops), `partial` (weight of the share of passed tests in the reward, 0 to
  1), `heldout` (0 draws training functions, 1 held-out ones). Easy: max_ops=1; hard: max_ops=3.

  Args:
    max_ops: largest number of operators of a target.
    examples: pairs in the prompt.
    tests: hidden tests.
    pool: largest number of targets of each number of operators.

  Returns:
    The task; `ops` defaults to the largest. Its action has 2 max_ops + 1 tokens and the stop.
  """
  if not 1 <= max_ops <= 4:
    raise ValueError(f'programs: max_ops must be 1 to 4, got {max_ops}')
  if min(examples, tests) < 1 or examples + tests > len(INPUTS):
    raise ValueError('programs: examples and tests must be at least 1 and at most '
                     f'{len(INPUTS)} together, got {examples} and {tests}')
  length = 2 * max_ops + 1
  library = [_split(words, tables) for words, tables in _functions(max_ops, pool)]
  sizes = np.asarray([[len(side) for side in sides] for sides in library])
  targets = [target for sides in library for side in sides for target in side]
  counts = jnp.asarray(sizes, jnp.int32)
  starts = jnp.asarray(np.cumsum(sizes).reshape(max_ops, 2) - sizes, jnp.int32)
  outputs = jnp.asarray(np.stack([table for _, table in targets]), jnp.int8)
  listing = jnp.asarray([[ID[w] for w in words] + [ID['.']] + [0] * (length - len(words))
                         for words, _ in targets], jnp.int8)
  inputs = jnp.asarray(INPUTS, jnp.int32)

  def reset(key, knobs):
    ops = jnp.clip(jnp.asarray(knobs['ops'], jnp.int32), 1, max_ops) - 1
    side = (jnp.asarray(knobs['heldout'], jnp.float32) > 0).astype(jnp.int32)
    draw = jax.random.uniform(jax.random.fold_in(key, 0))
    count = counts[ops, side]
    target = starts[ops, side] + jnp.minimum((draw * count).astype(jnp.int32), count - 1)
    rows = _distinct(jax.random.fold_in(key, 1), len(INPUTS), examples + tests)
    shown = rows[:examples]
    example = jnp.concatenate([ID['0'] + inputs[shown], jnp.full((examples, 1), ID['>'], jnp.int32),
                               ID['0'] + outputs[target][shown][:, None].astype(jnp.int32)], axis=1)
    prompt = jnp.concatenate([example.reshape(-1), jnp.full(1, ID[':'], jnp.int32)])
    return State(target, rows[examples:].astype(jnp.int32)), prompt, jnp.ones(prompt.shape, bool)

  def step(state, action, valid, knobs):
    partial = jnp.asarray(knobs['partial'], jnp.float32)
    x, y = inputs[state.hidden].T
    results, ran = run(jnp.where(valid, action, 0), x, y)
    passed = ran & (results == outputs[state.target][state.hidden])
    success = jnp.all(passed).astype(jnp.float32)
    reward = partial * passed.mean(dtype=jnp.float32) + (1 - partial) * success
    return base.Step(state, jnp.zeros(0, jnp.int32), jnp.zeros(0, bool), reward, success,
                     jnp.asarray(True), jnp.asarray(False))

  def state_id(state):
    factors = jnp.asarray([pow(31, i + 1, 2**32) for i in range(tests)], jnp.uint32)
    return (state.target.astype(jnp.uint32) * jnp.uint32(2654435761)
            + (state.hidden.astype(jnp.uint32) * factors).sum(dtype=jnp.uint32))

  def expert(state, key):
    del key
    action = listing[state.target].astype(jnp.int32)
    return action, action > 0

  return base.Task(
      vocab=VOCAB, prompt_len=4 * examples + 1, action_len=length + 1,
      observation_len=0, max_turns=1, stop_ids=(ID['.'],),
      knobs=dict(ops=max_ops, partial=0.0, heldout=0), reset=reset,
      reseed=lambda state, key: state, step=step, state_id=state_id, expert=expert)


def _distinct(key, n, count):
  """`count` distinct integers below n, in random order: the first swaps of a Fisher-Yates shuffle.

  Ten times faster under vmap on CPU than the sort of `jax.random.permutation`.
  """
  draws = jax.random.uniform(key, (count,))

  def swap(rows, item):
    i, draw = item
    j = jnp.minimum(i + (draw * (n - i)).astype(jnp.int32), n - 1)
    return rows.at[j].set(rows[i]), rows[j]

  _, out = jax.lax.scan(swap, jnp.arange(n, dtype=jnp.int32), (jnp.arange(count), draws))
  return out


def _functions(max_ops, pool):
  """Per number of operators, programs (tuples of words) and their input tables [n, 100]."""
  x, y = INPUTS.T
  operands = {'x': x, 'y': y} | {str(d): np.full_like(x, d) for d in range(1, MOD)}
  apply = dict(add=lambda a, b: (a + b) % MOD, sub=lambda a, b: (a - b) % MOD,
               mul=lambda a, b: a * b % MOD, mod=lambda a, b: a % np.maximum(b, 1),
               max=np.maximum, min=np.minimum)
  simple = np.stack([x, y] + [np.full_like(x, d) for d in range(MOD)])
  parents = [(('x',), x), (('y',), y)]
  known = {table.tobytes() for table in simple}
  out = []
  for _ in range(max_ops):
    found = []
    for words, table in parents:
      for operand, value in operands.items():
        for op in OPERATORS:
          if op == 'mod' and np.any(value == 0):
            continue
          new = apply[op](table, value)
          if new.tobytes() in known:
            continue
          known.add(new.tobytes())
          if (simple == new[None]).mean(axis=1).max() <= TOO_CLOSE:
            found.append((words + (operand, op), new))
    found.sort(key=lambda item: zlib.crc32(item[1].astype(np.uint8).tobytes()))
    parents = found[:pool]
    out.append(([words for words, _ in parents], [table for _, table in parents]))
  return out


def _split(words, tables):
  """Two lists of (words, table): training and held-out functions."""
  sides = [], []
  for item in zip(words, tables):
    sides[zlib.crc32(item[1].astype(np.uint8).tobytes()) % FOLDS == 0].append(item)
  return sides
