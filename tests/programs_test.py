"""The stack language, its faults, and the hidden tests."""

import collections

from absl.testing import absltest
from absl.testing import parameterized
import hypothesis
from hypothesis import strategies
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.tasks import programs
from tests import episodes as runs

WIDTH = 16


def padded(text):
  """Token ids of a program and padding, int32 [WIDTH]."""
  ids = np.asarray([programs.ID[word] for word in text.split()], np.int32)
  return np.pad(ids, (0, WIDTH - len(ids)))


@jax.jit
def chunk(program_BM):
  x_N, y_N = jnp.asarray(programs.INPUTS, jnp.int32).T
  return jax.vmap(lambda program: programs.run(program, x_N, y_N))(program_BM)


def run(texts):
  """Results and whether they count, [B, 100] on all inputs; 16 programs at once, compiled once."""
  rows = np.stack([padded(text) for text in texts])
  rows = np.pad(rows, ((0, -len(rows) % 16), (0, 0))).reshape(-1, 16, WIDTH)
  return [np.concatenate(x)[:len(texts)] for x in zip(*map(chunk, rows))]


def at(x, y):
  return 10 * x + y  # the row of an input


GOOD = (
    ('x y add .', 1), ('x y sub .', 5), ('y x sub .', 5), ('x y mul .', 4), ('y x mod .', 2),
    ('x y max .', 8), ('x y min .', 3), ('x dup mul .', 9), ('x y swap sub .', 5),
    ('x y over add add .', 4), ('x y drop .', 3), ('7 . x y', 7), ('9 x y .', 8),
    ('1 2 3 4 5 6 .', 6), ('x 1 sub 2 mul .', 4), ('y 2 x swap mod add .', 9),
    ('0 again x .', 3), ('x begin 1 sub dup again .', 0),
    ('y begin x sub dup 4 max 4 sub again .', 2), ('begin begin x begin .', 3),
    ('x . again', 3), ('y begin x begin drop 0 again .', 8))
BAD = ('.', 'add .', 'x add .', 'x y add', 'x swap .', 'x over .', 'dup .', 'drop .', 'x drop .',
       'x 0 mod .', 'x > .', 'x _ .', 'x : .', '1 2 3 4 5 6 7 .', 'x drop drop x .', '. x',
       'again', 'again .', 'again x .', 'x again .', '0 again .', 'x 0 again', 'begin .', 'x begin',
       'x x again .', 'x begin dup again .', 'x begin y again .', 'x begin y dup again .',
       'begin again .', 'x begin add 1 again .', 'x y begin swap over mod 1 again .',
       'x begin 1 sub dup again >')
PIECES = (*programs.VOCAB, *(f'{c} begin' for c in 'xy'), 'dup again', 'dup again', '1 sub', 'swap',
          'swap over mod', 'dup again drop .', '.', '0 again', 'begin', 'again')


class LanguageTest(parameterized.TestCase):

  def test_results(self):
    out, ran = run([text for text, _ in GOOD])
    for (text, want), have, ok in zip(GOOD, out[:, at(3, 8)], ran[:, at(3, 8)]):
      self.assertEqual((have, ok), (want, True), text)

  def test_faults(self):
    _, ran = run(BAD)
    for text, ok in zip(BAD, ran[:, at(3, 8)]):
      self.assertFalse(ok, text)

  def test_a_fault_is_that_of_its_input_only(self):
    (out,), (ran,) = run(['x y mod .'])
    self.assertEqual(ran[[at(7, 0), at(7, 4)]].tolist(), [False, True])
    self.assertEqual(out[at(7, 4)], 3)

  def test_sizes_that_cannot_be_run_are_refused(self):
    inputs = jnp.zeros(1, jnp.int32)
    for depth in (1, 7):
      with self.assertRaisesRegex(ValueError, '2 to 6 values'):
        programs.run(jnp.zeros(3, jnp.int32), inputs, inputs, depth=depth)
    for length in (0, programs.STEPS + 1):
      with self.assertRaisesRegex(ValueError, f'1 to {programs.STEPS} tokens'):
        programs.run(jnp.zeros(length, jnp.int32), inputs, inputs)


def plain(words, x, y, depth=6):
  """(what ended the program, result, jumps), by a Python list as the stack."""
  stack, at, jumps = [], 0, 0
  for _ in range(programs.STEPS):
    word = words[at] if at < len(words) else '_'
    at += 1
    if word == '.':
      return ('done', stack[-1], jumps) if stack else ('empty', None, jumps)
    need = 2 if word in ('over', 'swap', *programs.OPERATORS) else word in ('dup', 'drop', 'again')
    if len(stack) < need:
      return 'few', None, jumps
    if word.isdigit() or word in ('x', 'y', 'dup', 'over'):
      if len(stack) == depth:
        return 'full', None, jumps
      known = dict(x=x, y=y, dup=stack[-1:], over=stack[-2:-1])
      stack += [int(word)] if word.isdigit() else np.atleast_1d(known[word]).tolist()
    elif word == 'swap':
      stack[-2:] = stack[:-3:-1]
    elif word == 'drop':
      stack.pop()
    elif word == 'again':
      if stack.pop():
        before = words[:at - 1]
        at = len(before) - 1 - before[::-1].index('begin') if 'begin' in before else 0
        jumps += 1
    elif word in programs.OPERATORS:
      b, a = stack.pop(), stack.pop()
      if word == 'mod' and b == 0:
        return 'zero', None, jumps
      stack.append(dict(add=(a + b) % 10, sub=(a - b) % 10, mul=a * b % 10, mod=a % (b or 1),
                        max=max(a, b), min=min(a, b))[word])
    elif word != 'begin':
      return 'word', None, jumps
  return 'limit', None, jumps


class LoopTest(parameterized.TestCase):

  def agree(self, texts):
    """Compares programs with `plain` on 15 inputs; returns {(what ended it, jumped): count}."""
    ends = collections.Counter()
    for text, *have in zip(texts, *run(texts)):
      for (x, y), result, ran in list(zip(programs.INPUTS.tolist(), *have))[::7]:
        end, want, jumps = plain(text.split(), x, y)
        self.assertEqual((ran, result if ran else None), (end == 'done', want), (text, x, y, end))
        self.assertFalse('begin' not in text and jumps and ran, text)
        ends[end, jumps > 0] += 1
    return ends

  @hypothesis.settings(max_examples=100, deadline=None, derandomize=True)
  @hypothesis.given(strategies.lists(strategies.sampled_from(PIECES), min_size=1, max_size=9))
  def test_any_program_does_what_a_list_as_the_stack_does(self, pieces):
    self.agree([' '.join(' '.join(pieces).split()[:WIDTH])])

  def test_named_and_drawn_programs_end_in_every_way(self):
    rng = np.random.default_rng(0)
    drawn = [' '.join(' '.join(rng.choice(PIECES, 6)).split()[:WIDTH]) for _ in range(120)]
    loops = [f'x y begin {" ".join(rng.choice(PIECES, 3))} dup again .' for _ in range(120)]
    loops = [' '.join(text.split()[:WIDTH]) for text in loops]
    ends = self.agree([text for text, _ in GOOD] + [*BAD] + drawn + loops)
    for end in ('done', 'few', 'full', 'zero', 'word', 'limit'):
      self.assertGreater(ends[end, True], 5, end)
    for end in ('done', 'few', 'full', 'zero', 'word', 'empty'):
      self.assertGreater(ends[end, False], 5, end)

  def test_greatest_common_divisor_and_power(self):
    x, y = programs.INPUTS.T
    texts = ('x y begin swap over mod dup again drop .',
             '1 y begin swap x mul swap 1 sub dup again drop .')
    (gcd, power), (ran_gcd, ran_power) = run(texts)
    np.testing.assert_array_equal(ran_gcd, y > 0)
    np.testing.assert_array_equal(gcd[y > 0], np.gcd(x, y)[y > 0])
    np.testing.assert_array_equal(ran_power, (y > 0) & (y < 7))  # 9 y + 4 tokens
    np.testing.assert_array_equal(power[ran_power], (x**y % 10)[ran_power])

  def test_the_limit_counts_the_stop(self):
    text = 'y drop y drop y drop 8 begin 9 add dup max dup again .'  # 7 + 8 * 7 + 1 tokens
    self.assertEqual(programs.STEPS, 64)
    _, ran = run([text, f'begin {text}'])
    self.assertEqual(ran[:, at(3, 8)].tolist(), [True, False])

  def test_the_longest_program(self):
    inputs = jnp.asarray([3]), jnp.asarray([8])
    words = ['x', *['begin'] * (programs.STEPS - 2), '.']
    longest = jax.jit(lambda program: programs.run(program, *inputs))
    for last, want in (('.', True), ('begin', False), ('x', False)):
      _, ran = longest(jnp.asarray([programs.ID[word] for word in words[:-1] + [last]]))
      self.assertEqual(bool(ran[0]), want, last)

  def test_a_loop_may_end_on_one_input_and_not_on_another(self):
    (out,), (ran,) = run(['5 x again .'])
    self.assertEqual(ran[[at(0, 4), at(1, 4)]].tolist(), [True, False])
    self.assertEqual(out[at(0, 4)], 5)

  def test_an_endless_program_fails_every_test_of_an_instance(self):
    task = runs.build('programs', max_ops=2)
    knobs = task.knobs | dict(ops=1, partial=1.0)

    @jax.jit
    def rewards(key):
      state, *_ = task.reset(key, knobs)
      action, valid = task.expert(state, None)
      after = lambda digit: jnp.concatenate(
          [jnp.asarray([programs.ID[digit], programs.ID['again']]), action[:-2]])
      valid = jnp.concatenate([jnp.ones(2, bool), valid[:-2]])
      return [task.step(state, after(digit), valid, knobs).reward for digit in '01']

    self.assertEqual([float(r) for r in rewards(keys.root(0))], [1, 0])


class ProgramsTest(parameterized.TestCase):

  def test_functions_are_distinct_split_by_behaviour_and_what_the_interpreter_computes(self):
    texts, wanted, seen = [], [], {}
    for words, tables in programs._functions(2, 1024):
      for side, found in enumerate(programs._split(words, tables)):
        self.assertGreater(len(found), 5)
        for program, table in found:
          self.assertNotIn(table.tobytes(), seen)
          seen[table.tobytes()] = side
          texts.append(' '.join(program) + ' .')
          wanted.append(table)
    out, ran = run(texts)
    self.assertTrue(np.all(ran))
    np.testing.assert_array_equal(out, np.stack(wanted))

  def test_hidden_inputs_are_not_shown(self):
    task = runs.build('programs')
    states, prompts, _ = jax.jit(jax.vmap(lambda key: task.reset(key, task.knobs)))(
        keys.grid(keys.root(0), 50))
    for hidden, prompt in zip(states.hidden, np.asarray(prompts)):
      shown = prompt[:-1].reshape(-1, 4)[:, :2] - 1
      rows = {*map(tuple, shown.tolist()), *map(tuple, programs.INPUTS[hidden].tolist())}
      self.assertLen(rows, 4 + 12)

  @parameterized.parameters(1, 2)
  def test_nothing_constants_and_copies_do_not_pass(self, ops):
    task = runs.build('programs', max_ops=ops)
    texts = ('.', 'x .', 'y .', *(f'{d} .' for d in range(10)))
    actions = np.stack([padded(text)[:task.action_len] for text in texts])
    constant = lambda prompt: jnp.zeros(task.action_len, jnp.int32).at[:2].set(
        jnp.stack([prompt[3], jnp.int32(programs.ID['.'])]))  # the output of the first example

    @jax.jit
    def rates(keys_B):
      def one(key):
        state, prompt, _ = task.reset(key, task.knobs)
        tried = jnp.concatenate([actions, constant(prompt)[None]])
        score = lambda action: task.step(state, action, action > 0, task.knobs).success
        return jax.vmap(score)(tried)
      return jax.vmap(one)(keys_B).mean(axis=0)

    self.assertLess(float(rates(keys.grid(keys.root(0), 3000)).max()), 1e-3)

  def test_partial_credit_is_in_the_reward_and_never_in_success(self):
    task = runs.build('programs')
    step = jax.jit(task.step)
    state, *_ = task.reset(keys.root(0), task.knobs)
    action = jnp.asarray(padded('x .')[:task.action_len])
    share = float(step(state, action, action > 0, task.knobs | dict(partial=1.0)).reward)
    half = step(state, action, action > 0, task.knobs | dict(partial=0.5))
    self.assertAlmostEqual(float(half.reward), 0.5 * share, places=6)
    self.assertEqual(float(half.success), 0)
    full = step(state, *task.expert(state, None), task.knobs | dict(partial=0.5))
    self.assertEqual((float(full.reward), float(full.success)), (1, 1))

  def test_bad_sizes(self):
    for sizes in (dict(max_ops=0), dict(examples=0), dict(tests=100)):
      with self.assertRaisesRegex(ValueError, 'programs: '):
        programs.make(**sizes)


if __name__ == '__main__':
  absltest.main()
