"""The stack language, its faults, and the hidden tests."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.tasks import programs
from tests import episodes as runs

WIDTH = 9


def padded(text):
  """Token ids of a program and padding, int32 [WIDTH]."""
  ids = np.asarray([programs.ID[word] for word in text.split()], np.int32)
  return np.pad(ids, (0, WIDTH - len(ids)))


@jax.jit
def run(program_BM, x_N, y_N):
  return jax.vmap(lambda program: programs.run(program, x_N, y_N))(program_BM)


GOOD = (
    ('x y add .', 1), ('x y sub .', 5), ('y x sub .', 5), ('x y mul .', 4), ('y x mod .', 2),
    ('x y max .', 8), ('x y min .', 3), ('x dup mul .', 9), ('x y swap sub .', 5),
    ('x y over add add .', 4), ('x y drop .', 3), ('7 . x y', 7), ('9 x y .', 8),
    ('1 2 3 4 5 6 .', 6), ('x 1 sub 2 mul .', 4), ('y 2 x swap mod add .', 9))
BAD = ('.', 'add .', 'x add .', 'x y add', 'x swap .', 'x over .', 'dup .', 'drop .', 'x drop .',
       'x 0 mod .', 'x > .', 'x _ .', 'x : .', '1 2 3 4 5 6 7 .', 'x drop drop x .', '. x')


class LanguageTest(parameterized.TestCase):

  def test_results(self):
    out, ran = run(np.stack([padded(text) for text, _ in GOOD]), jnp.full(1, 3), jnp.full(1, 8))
    self.assertTrue(np.all(ran))
    for (text, want), have in zip(GOOD, out[:, 0]):
      self.assertEqual(int(have), want, text)

  def test_faults(self):
    _, ran = run(np.stack([padded(text) for text in BAD]), jnp.full(1, 3), jnp.full(1, 8))
    for text, ok in zip(BAD, ran[:, 0]):
      self.assertFalse(ok, text)

  def test_a_fault_is_that_of_its_input_only(self):
    out, ran = run(padded('x y mod .')[None], jnp.asarray([7, 7]), jnp.asarray([0, 4]))
    self.assertEqual(ran[0].tolist(), [False, True])
    self.assertEqual(int(out[0, 1]), 3)

  def test_a_stack_of_one_is_refused(self):
    with self.assertRaisesRegex(ValueError, 'at least 2 values'):
      programs.run(jnp.zeros(3, jnp.int32), jnp.zeros(1, jnp.int32), jnp.zeros(1, jnp.int32),
                   depth=1)


class ProgramsTest(parameterized.TestCase):

  def test_functions_are_distinct_split_by_behaviour_and_what_the_interpreter_computes(self):
    texts, wanted, seen = [], [], {}
    for words, tables in programs._functions(2, 1024):
      for side, found in enumerate(programs._split(words, tables)):
        self.assertGreater(len(found), 5)
        for program, table in found:
          self.assertNotIn(table.tobytes(), seen)
          seen[table.tobytes()] = side
          texts.append(padded(' '.join(program) + ' .'))
          wanted.append(table)
    out, ran = run(np.stack(texts), *jnp.asarray(programs.INPUTS, jnp.int32).T)
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
