"""Rules, rungs, floors and the split of the sudoku ladder."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.tasks import ladder
from tests import episodes as runs


def board_of(tokens):
  """Digits of a shown board, 0 where empty."""
  return np.where((tokens >= 17) & (tokens <= 20), tokens - 16, 0)


class LadderTest(parameterized.TestCase):

  def test_boards_obey_the_rules_and_every_rung_is_a_naked_single(self):
    boards, ranks = ladder._boards()
    self.assertEqual((boards.shape, ranks.shape), ((12, 16), (12, ladder.ORDERS, 16)))
    np.testing.assert_array_equal(ladder.PEERS.sum(1), 7)
    for board, orders in zip(boards, ranks):
      self.assertFalse(np.any(ladder.PEERS & (board[:, None] == board[None])))
      for rank in orders:
        self.assertEqual(sorted(rank[rank < 99]), list(range(10)))
        for i in range(10):  # emptied with the cells of rank <= i gone: the others are seen
          cell = np.flatnonzero(rank == i)[0]
          seen = {int(d) for d in board[ladder.PEERS[cell] & (rank > i)]}
          self.assertEqual(seen, {1, 2, 3, 4} - {int(board[cell])})

  @parameterized.parameters(*range(1, 8))
  def test_levels(self, level):
    task = runs.build('ladder', max_level=7)
    record = runs.episodes(task, 'expert', level=level)
    self.assertEqual(runs.success(record), 1)
    np.testing.assert_array_equal(record['alive'].sum(1), ladder.EMPTY[level - 1])
    empty = (board_of(record['prompt']) == 0).sum(1)
    np.testing.assert_array_equal(empty, ladder.EMPTY[level - 1])
    np.testing.assert_array_equal((record['prompt'] == ladder.NEXT).sum(1), 1)

  def test_lower_levels(self):
    task = runs.build('ladder', max_level=7)
    count = lambda **knobs: np.bincount(
        (board_of(runs.episodes(task, 'expert', **knobs)['prompt']) == 0).sum(1), minlength=11)
    drawn = count(level=4, lower=1.0)
    self.assertEqual(drawn.sum(), drawn[1:5].sum())
    np.testing.assert_allclose(drawn[1:5] / drawn.sum(), 1 / 4, atol=0.05)
    half = count(level=4, lower=0.5)  # half of all, and a quarter of the other half
    np.testing.assert_allclose(half[4] / half.sum(), 5 / 8, atol=0.05)

  def test_macro_actions_take_fewer_turns_of_more_tokens(self):
    task = runs.build('ladder', max_level=5, macro=3)
    record = runs.episodes(task, 'expert')
    self.assertEqual((runs.success(record), task.action_len), (1, 6))
    np.testing.assert_array_equal(record['alive'].sum(1), 2)
    one = runs.episodes(runs.build('ladder', max_level=7), 'expert', level=5)
    np.testing.assert_array_equal(one['prompt'], record['prompt'])

  def test_a_wrong_digit_stays_and_the_clock_is_no_end(self):
    task = runs.build('ladder')
    step = jax.jit(task.step)
    state, *_ = task.reset(keys.root(0), task.knobs)
    play = lambda state, cell, digit: step(
        state, jnp.asarray([ladder.CELL + cell, ladder.DIGIT - 1 + digit]), jnp.ones(2, bool),
        task.knobs | dict(subgoal=1.0))
    cells = np.flatnonzero(np.asarray(state.board) == 0)
    right = [int(state.solution[c]) for c in cells]
    wrong = play(state, cells[0], right[0] % 4 + 1)
    self.assertEqual((float(wrong.reward), bool(wrong.terminated)), (0, False))
    self.assertGreater(float(task.potential(task.state_id(state), {})) + 1, 0)
    again = play(wrong.state, cells[0], right[0])
    np.testing.assert_array_equal(again.state.board, wrong.state.board)
    out = again
    for cell, digit in zip(cells[1:], right[1:]):
      self.assertEqual(float(task.potential(task.state_id(out.state), {})), 0)
      out = play(out.state, cell, digit)
      self.assertEqual(float(out.reward), 0.25)
    self.assertEqual((bool(out.terminated), float(out.success)), (True, 0))
    for _ in range(6):
      state = play(state, 0, 9).state
    out = play(state, 0, 9)
    self.assertEqual((bool(out.terminated), bool(out.truncated)), (False, True))

  def test_potential_and_subgoals_add_up(self):
    task = runs.build('ladder')
    for subgoal in (0.0, 0.5, 1.0):
      record = runs.episodes(task, 'expert', subgoal=subgoal)
      total = (record['reward'] * record['alive']).sum(1)
      np.testing.assert_allclose(total, 1, atol=1e-6)
    phi = np.asarray(task.potential(jnp.asarray(record['state_id']), task.knobs))[:, :4]
    np.testing.assert_allclose(phi, np.broadcast_to([0.25, 0.5, 0.75, 1], phi.shape))

  def test_a_knob_changes_its_own_thing_only(self):
    task = runs.build('ladder')
    plain = runs.episodes(task, 'expert')
    paid = runs.episodes(task, 'expert', subgoal=1.0)
    np.testing.assert_array_equal(plain['observation'], paid['observation'])
    hidden = runs.episodes(task, 'expert', unmarked=1.0)
    np.testing.assert_array_equal(board_of(plain['observation']), board_of(hidden['observation']))
    self.assertFalse(np.any(hidden['observation'] == ladder.NEXT))
    self.assertFalse(np.any(hidden['prompt'] == ladder.NEXT))

  def test_split_is_disjoint_up_to_renaming(self):
    task = runs.build('ladder')

    def kinds(side):
      found = set()
      for board in runs.episodes(task, 'expert', heldout=side)['observation'][:, 3]:
        board = board_of(board)
        found.add(tuple(np.argsort(board[:4])[board - 1]))
      return found

    train, held = kinds(0), kinds(1)
    self.assertFalse(train & held)
    self.assertEqual((len(train), len(held)), (10, 2))

  def test_floors_and_exploits(self):
    task = runs.build('ladder')
    for level, floor in ((1, 0.006), (2, 0.0), (4, 0.0)):
      self.assertAlmostEqual(runs.rates(task, level=level)['success'], floor, delta=0.002)
    self.assertAlmostEqual(runs.rates(task, subgoal=1.0)['reward'], 0.012, delta=0.004)
    self.assertAlmostEqual(runs.rates(task, [1, 17], level=1)['success'], 0.016, delta=0.004)
    self.assertEqual(runs.rates(task, [])['success'], 0)
    self.assertEqual(runs.rates(task, [])['truncated'], 1)
    for number in ('0.006', '0.012', '0.016'):
      self.assertIn(number, ladder.__doc__)

  def test_bad_sizes(self):
    for sizes in (dict(max_level=8), dict(macro=0), dict(spare=-1)):
      with self.assertRaisesRegex(ValueError, 'ladder: '):
        ladder.make(**sizes)


if __name__ == '__main__':
  absltest.main()
