"""Tier 1: one sum or product, exactly checked. The home of group-relative methods.

The prompt is `terms` numbers of `digits` digits: `7 + 5 =`. The answer is written in one turn, most
significant digit first, without leading zeros, and ended by the stop token: `1 2 .`. Reward and
success are 1 if it is exact, stop included, and 0 otherwise. There is no second turn, no
observation and no noise.

Train and held-out instances never meet: an instance is held out when the sum over its terms of
pi(last digit) + h(other digits) is a multiple of 5, where pi is a fixed shuffle of the digits. That
is a fifth of all instances. The rule does not see the order of the terms, so `23 + 48` and `48 +
23` are on the same side.

Two terms of one digit have 80 prompts to train on and 20 to hold out. Nothing can be learned there
but the table: a transformer of two layers that imitates the expert to 1.00 on the 80 scores 0.00 on
the 20. So at that size there is by default no split and no `heldout` knob: every prompt of a test
has been trained on, and a score says what was learned, not what carries over. With two digits (6480
to train on) the same model, after 1200 cloning steps of 128, scores 1.00 on both sides; three terms
of one digit, 1.00 and 0.59.

Floors, from 200,000 episodes with uniform tokens of the whole vocabulary: 0.003 for two one-digit
terms, 0.00006 for three of two digits. Stop at once: 0. Always the same answer: 1/10 for two
one-digit terms, about 0.01 for two of two digits.

With operators='+*' there is one more token and room for products, `7 * 5 =`: the knob `products` is
the probability that the numbers of a prompt are multiplied. The numbers themselves stay the same,
and so does the split. Products of two one-digit terms: uniform tokens pass in 0.002 of 100,000
episodes, and always writing `0 .` in 0.19, since as many prompts hold a zero.

With scratch=n an answer may have n tokens more, and one more word, `;`: what counts is behind the
last one, so `1 2 .`, `; ; 1 2 .` and `5 ; 1 2 .` are all exact. Length is then free for right and
wrong answers alike. The expert writes 0 to n // 2 such words, all equally often.
"""

import jax
import jax.numpy as jnp

from grpo import types
from grpo.tasks import base

__all__ = ['make', 'State']

PAD, DIGIT, PLUS, EQUALS, STOP, TIMES = 0, 1, 11, 12, 13, 14
VOCAB = ('_',) + tuple('0123456789') + ('+', '=', '.')
SHUFFLE = (3, 8, 7, 5, 2, 4, 0, 9, 6, 1)
FOLDS = 5  # one fold in five is held out, where instances are split


@types.pytree
class State:
  """One instance."""
  answer: jax.Array  # int32 []


def make(*, max_terms: int = 2, max_digits: int = 2, folds: int | None = None,
         operators: str = '+', scratch: int = 0) -> base.Task:
  """Sums of up to `max_terms` numbers of up to `max_digits` digits.

  Knobs: `terms` (2 to max_terms), `digits` (1 to max_digits), `products` (share of products; read
  only with operators='+*'), and with a split `heldout` (0 draws training instances, 1 held-out
  ones). max_digits=1 is a table to learn by heart; the default, two terms of two digits, carries
  over to new prompts; max_terms=3 is hard.

  Args:
    max_terms: largest number of terms.
    max_digits: largest number of digits of a term; 8 at most, so that sums fit in 32 bits.
    folds: 5 holds out one instance in five, 0 none; None is 0 for two terms of one digit, else 5.
    operators: '+', or '+*' for products too; then max_terms * max_digits is at most 9.
    scratch: tokens that may stand before the answer; above 0 there is the word `;`.

  Returns:
    The task; `terms` and `digits` default to the largest.
  """
  if max_terms < 2:
    raise ValueError(f'arithmetic: max_terms must be at least 2, got {max_terms}')
  if not 1 <= max_digits <= 8 or max_terms * 10**max_digits >= 2**31:
    raise ValueError('arithmetic: max_digits must be 1 to 8 and the largest sum below 2^31, got '
                     f'max_terms={max_terms}, max_digits={max_digits}')
  if operators not in ('+', '+*') or (operators == '+*' and max_terms * max_digits > 9):
    raise ValueError("arithmetic: operators must be '+', or '+*' with max_terms * max_digits at "
                     f'most 9, got {operators!r} with {max_terms} * {max_digits}')
  if scratch < 0:
    raise ValueError(f'arithmetic: scratch must be at least 0, got {scratch}')
  multiplies = '*' in operators
  if folds not in (None, 0, FOLDS):
    raise ValueError(f'arithmetic: folds must be 0, {FOLDS} or None, got {folds}')
  if folds is None:
    folds = 0 if (max_terms, max_digits) == (2, 1) else FOLDS
  largest = 10**max_digits - 1
  width = len(str(max(max_terms * largest, largest**max_terms if multiplies else 0)))
  prompt_len = max_terms * (max_digits + 1)
  powers = jnp.asarray([10**(width - 1 - i) for i in range(width)], jnp.int32)
  vocab = VOCAB + tuple(operators[1:]) + (';',) * (scratch > 0)
  action_len, blank = width + 1 + scratch, len(vocab) - 1
  shuffle = jnp.asarray(SHUFFLE, jnp.int32)
  unshuffle = jnp.argsort(shuffle)

  def reset(key, knobs):
    terms, digits = (jnp.asarray(knobs[k], jnp.int32) for k in ('terms', 'digits'))
    terms, digits = jnp.clip(terms, 1, max_terms), jnp.clip(digits, 1, max_digits)
    draws = jax.random.randint(key, (max_terms * max_digits + 1,), 0, 9 * 10 * 8)
    term = jnp.arange(max_terms)[:, None]
    place = jnp.arange(max_digits)[None, :]
    real = (term < terms) & (place < digits)
    leading = (place == 0) & (digits > 1)
    grid = draws[:-1].reshape(max_terms, max_digits)
    grid = jnp.where(real, jnp.where(leading, 1 + grid % 9, grid % 10), 0)
    # The last digit of the last term is drawn last: among those that put the instance on its side.
    last = (term == terms - 1) & (place == digits - 1)
    ones = place == digits - 1
    higher = _numbers(jnp.where(ones, 0, grid), digits)
    marks = (shuffle[grid] * (ones & real & ~last)).sum() + (higher % 10007 * 7919 % 10007).sum()
    if folds:
      heldout = jnp.asarray(knobs['heldout'], jnp.float32) > 0
      residue = jnp.where(heldout, 0, 1 + draws[-1] % (FOLDS - 1))
      residue = (residue - marks) % FOLDS
      grid = jnp.where(last, unshuffle[residue + FOLDS * (draws[-1] // (FOLDS - 1) % 2)], grid)

    q = jnp.arange(prompt_len) - (prompt_len - terms * (digits + 1))
    j, r = jnp.clip(q, 0) // (digits + 1), jnp.clip(q, 0) % (digits + 1)
    numbers = _numbers(grid, digits)
    answer, between = numbers.sum(), PLUS
    if multiplies:
      draw = jax.random.uniform(jax.random.fold_in(key, 1))
      product = draw < jnp.asarray(knobs['products'], jnp.float32)
      answer = jnp.where(product, jnp.where(jnp.arange(max_terms) < terms, numbers, 1).prod(),
                         answer)
      between = jnp.where(product, TIMES, PLUS)
    sign = jnp.where(j == terms - 1, EQUALS, between)
    prompt = jnp.where(r == digits, sign, DIGIT + grid[j, jnp.clip(r, 0, max_digits - 1)])
    return State(answer), jnp.where(q >= 0, prompt, PAD).astype(jnp.int32), q >= 0

  def written(answer):
    """The exact action."""
    count = jnp.maximum((answer >= powers).sum(), 1)
    place = jnp.arange(width + 1)
    digit = answer // powers[jnp.clip(width - count + place, 0, width - 1)] % 10
    action = jnp.where(place < count, DIGIT + digit, jnp.where(place == count, STOP, PAD))
    return action.astype(jnp.int32), place <= count

  def step(state, action, valid, knobs):
    del knobs
    target, needed = written(state.answer)
    if scratch:
      place = jnp.arange(action_len)
      start = jnp.max(jnp.where(valid & (action == blank), place + 1, 0))
      at = start + jnp.arange(width + 1)
      valid = valid[at % action_len] & (at < action_len)
      action = action[at % action_len]
    exact = jnp.all(~needed | (valid & (action == target)))
    score = exact.astype(jnp.float32)
    return base.Step(state, jnp.zeros(0, jnp.int32), jnp.zeros(0, bool), score, score,
                     jnp.asarray(True), jnp.asarray(False))

  def _expert(state, key):
    target, needed = written(state.answer)
    if not scratch:
      return target, needed
    before = (jax.random.uniform(key) * (scratch // 2 + 1)).astype(jnp.int32)
    place = jnp.arange(action_len)
    at = jnp.clip(place - before, 0, width)
    answer = jnp.where(needed[at] & (place - before <= width), target[at], PAD)
    action = jnp.where(place < before, blank, answer)
    return action.astype(jnp.int32), action != PAD

  return base.Task(
      vocab=vocab, prompt_len=prompt_len, action_len=action_len,
      observation_len=0, max_turns=1,
      stop_ids=(STOP,),
      knobs=dict(terms=max_terms, digits=max_digits, products=0.0) | (
          dict(heldout=0) if folds else {}),
      reset=reset, reseed=lambda state, key: state, step=step,
      state_id=lambda state: state.answer.astype(jnp.uint32) + jnp.uint32(1), expert=_expert,
      prompt_space=len(operators) * _space(max_terms, max_digits, folds))


def _numbers(grid, digits):
  """Value of each row of digits, most significant first; places from `digits` on are ignored."""
  place = jnp.arange(grid.shape[1])[None, :]
  scale = jnp.where(place < digits, 10 ** jnp.clip(digits - 1 - place, 0), 0)
  return (grid * scale).sum(axis=1)


def _space(terms, digits, folds):
  """Number of distinct training prompts."""
  numbers = 10 if digits == 1 else 9 * 10**(digits - 1)
  return numbers**terms * (FOLDS - 1) // FOLDS if folds else numbers**terms
