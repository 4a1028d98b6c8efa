"""Rules, levels, dead ends and floors of the sokoban task."""

import itertools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.study import play
from grpo.tasks import sokoban
from tests import episodes as runs

STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))


def parse(words):
  """(walls, goals, boxes, player) of a shown board, as sets of places."""
  size = int(len(words)**0.5)
  at = lambda signs: frozenset(divmod(i, size) for i, w in enumerate(words) if w in signs)
  return at('#'), at('o*+'), at('$*'), next(iter(at('@+'))), size


def push(walls, boxes, player, step, size):
  """The rules again, on sets: (boxes, player) after a move."""
  free = lambda p: p not in walls and 0 <= p[0] < size and 0 <= p[1] < size
  ahead, behind = ((player[0] + k * step[0], player[1] + k * step[1]) for k in (1, 2))
  if not free(ahead) or (ahead in boxes and (not free(behind) or behind in boxes)):
    return boxes, player
  return (boxes - {ahead} | {behind} if ahead in boxes else boxes), ahead


def solution(board):
  """Length of a shortest solution by breadth-first search, or None."""
  walls, goals, boxes, player, size = board
  seen, edge = {(boxes, player)}, [(boxes, player)]
  for length in itertools.count():
    if any(boxes == goals for boxes, _ in edge):
      return length
    new = {push(walls, *state, step, size) for state in edge for step in STEPS} - seen
    if not new:
      return None
    seen |= new
    edge = list(new)


class SokobanTest(parameterized.TestCase):

  def test_moves_are_those_of_the_game_on_random_play(self):
    task = runs.build('sokoban', size=5, max_boxes=2, max_depth=12)
    words = lambda tokens: [task.vocab[t] for t in tokens]

    @jax.jit
    def play(key):
      knobs = task.knobs | dict(walls=2)
      state, prompt, _ = task.reset(jax.random.fold_in(key, 0), knobs)
      moves = (jax.random.uniform(jax.random.fold_in(key, 1), (12,)) * 4).astype(jnp.int32)

      def turn(state, move):
        out = task.step(state, 1 + move[None], jnp.ones(1, bool), knobs)
        return out.state, (out.observation, out.success)
      return prompt, moves, *jax.lax.scan(turn, state, moves)[1]

    out = jax.vmap(lambda i: play(jax.random.fold_in(keys.root(0), i)))(jnp.arange(50))
    for prompt, moves, boards, success in zip(*map(np.asarray, out)):
      walls, goals, boxes, player, size = parse(words(prompt))
      self.assertEqual((len(walls), len(goals), len(boxes)), (2, 2, 2))
      for move, board, won in zip(moves, boards, success):
        boxes, player = push(walls, boxes, player, STEPS[move], size)
        self.assertEqual(parse(words(board)), (walls, goals, boxes, player, size))
        self.assertEqual(bool(won), boxes == goals)

  @parameterized.parameters(1, 4, 8)
  def test_levels_are_solvable_in_at_most_depth_moves_and_not_solved(self, depth):
    task = runs.build('sokoban')
    record = runs.episodes(task, 'expert', depth=depth, walls=2)
    self.assertEqual(runs.success(record), 1)
    lengths = record['alive'].sum(1)
    self.assertLessEqual(lengths.max(), depth)
    for prompt, length in list(zip(record['prompt'], lengths))[:40]:
      best = solution(parse([task.vocab[t] for t in prompt]))
      self.assertBetween(best, 1, length)

  def test_dead_ends_exist_and_go_on_to_the_time_limit(self):
    task = runs.build('sokoban')
    record = runs.episodes(task, 'uniform')
    lost = 0
    for board, alive in list(zip(record['observation'], record['alive']))[:100]:
      lost += solution(parse([task.vocab[t] for t in board[alive.sum() - 1]])) is None
    self.assertGreater(lost, 0)
    np.testing.assert_array_equal(record['terminated'].sum(1) > 0, record['success'].sum(1) > 0)

  def test_the_expert_walks_back_after_a_stray_walk(self):
    task = runs.build('sokoban')
    knobs = task.knobs | dict(depth=6)
    states = jax.vmap(lambda i: task.reset(jax.random.fold_in(keys.root(0), i), knobs)[0])(
        jnp.arange(200))
    step = jax.jit(jax.vmap(lambda s, a: task.step(s, a, jnp.ones(1, bool), knobs)))
    expert = jax.jit(jax.vmap(lambda s: task.expert(s, None)[0]))
    stray = (expert(states) - 1 ^ 1) + 1  # the opposite of the right move
    out = step(states, stray)
    walked = np.all(out.state.boxes == states.boxes, axis=1)
    success = np.zeros(200)
    for _ in range(9):
      out = step(out.state, expert(out.state))
      success = np.maximum(success, out.success)
    self.assertGreater(walked.sum(), 100)
    self.assertTrue(np.all(success[walked] == 1))

  def test_a_knob_changes_its_own_thing_only(self):
    task = runs.build('sokoban', size=5, max_boxes=2, max_depth=12)
    plain = runs.episodes(task, 'expert')
    paid = runs.episodes(task, 'expert', subgoal=1.0)
    np.testing.assert_array_equal(plain['observation'], paid['observation'])
    np.testing.assert_allclose((paid['reward'] * paid['alive']).sum(1), 1, atol=1e-6)
    low = (runs.episodes(task, 'expert', depth=d)['alive'].sum(1).mean() for d in (1, 4, 8, 12))
    self.assertTrue(np.all(np.diff(list(low)) > 0))

  def test_potential(self):
    task = runs.build('sokoban')
    record = runs.episodes(task, 'expert')
    phi = np.asarray(task.potential(jnp.asarray(record['state_id']), task.knobs))
    self.assertTrue(np.all((phi >= 0) & (phi <= 1)))
    np.testing.assert_array_equal(phi[np.arange(len(phi)), record['alive'].sum(1) - 1], 1)

  def test_split_is_disjoint(self):
    task = runs.build('sokoban')
    sides = [{tuple(row) for row in runs.episodes(task, 'expert', heldout=side, walls=2)['prompt']}
             for side in (0, 1)]
    self.assertFalse(sides[0] & sides[1])

  def test_floors_and_exploits(self):
    task = runs.build('sokoban')
    for depth, floor in ((1, 0.15), (4, 0.02), (8, 0.01)):
      self.assertAlmostEqual(runs.rates(task, depth=depth)['success'], floor, delta=0.005)
      self.assertIn(f'{floor:.2f}', sokoban.__doc__)
    for depth, best in ((1, 0.25), (4, 0.11), (8, 0.03)):
      for move in (1, 3):  # the world has the symmetry of a square
        self.assertAlmostEqual(runs.rates(task, [move], depth=depth)['success'], best, delta=0.01)
      self.assertIn(f'{best:.2f}', sokoban.__doc__)
    self.assertEqual(runs.rates(task, [], subgoal=1.0)['reward'], 0)
    left = task.vocab.index('left')
    act = lambda state, key: (left + state.turn[None] % 2, jnp.ones(1, bool))
    success, _, _ = play.scores(task, act, 4000)(dict(depth=1), keys.root(0))
    self.assertAlmostEqual(success.mean(), 0.37, delta=0.025)
    self.assertIn('0.37', sokoban.__doc__)

  def test_bad_sizes(self):
    for sizes in (dict(size=3), dict(max_boxes=4), dict(max_walls=9)):
      with self.assertRaisesRegex(ValueError, 'sokoban: '):
        sokoban.make(**sizes)


if __name__ == '__main__':
  absltest.main()
