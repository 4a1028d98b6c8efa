"""Tier 3: one reasoning step, repeated. Sudoku of 4 x 4 by the number of empty cells.

The board is shown each turn, row by row: digits, `.` for an empty cell, and `?` for the one to fill
next. An action writes digits: `r2c3 4`. A cell that holds a digit cannot be written again, so a
wrong digit is never taken back, and what it spoils is not told. The episode ends when the board is
full, with success if it obeys all rules; after (turns needed + spare) turns a time limit truncates
it. An action that names no empty cell or no digit wastes its place.

Rungs are alike: every cell is emptied when its row, column and box rule out the other three digits,
so in the opposite order each step is the same one, "the digit that is missing around this cell",
and the solution is unique. Levels L1 to L7 have 1, 2, 3, 4, 6, 8, 10 empty cells: the horizon
grows, the step does not.

Atomic actions write one cell a turn (macro=1). A macro action writes `macro` cells, a pair of
tokens each, without a look at the board in between: T / macro decisions of as many tokens.

Knobs: `level` (1 to max_level), `lower` (share of episodes whose level is drawn from 1 to `level`
instead, all equally often: to train on several), `unmarked` (probability a turn that no `?` tells
where to go on; the agent then has to look for it), `subgoal` (share of the reward that is paid for
each right cell when it is written, 0 to 1), `heldout`. There are 12 boards up to a renaming of the
digits; 2 of them are held out, so no held-out board is a renaming of one that was trained on.

Potential: share of the empty cells that are filled, 0 once one of them is wrong.

The expert fills cells in the right order: ceiling 1. Floors of uniform tokens, from 20,000 episodes
each: 0.006 on L1, 0 from L2 on; with subgoal = 1 a return of 0.012 on L4. One action again and
again: 0.016 on L1. Doing nothing: 0, cut by the time limit.
"""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from grpo import types
from grpo.tasks import base
from grpo.tasks import ids

__all__ = ['make', 'State', 'EMPTY', 'PEERS']

EMPTY = (1, 2, 3, 4, 6, 8, 10)  # empty cells of levels 1 to 7
CELL, DIGIT, BLANK, NEXT = 1, 17, 21, 22
VOCAB = (('_',) + tuple(f'r{r}c{c}' for r in range(1, 5) for c in range(1, 5)) + tuple('1234')
         + ('.', '?'))
ORDERS = 64  # ways to empty each board
HELDOUT = 2  # of the 12 boards
_ROW, _COLUMN = np.divmod(np.arange(16), 4)
_BOX = _ROW // 2 * 2 + _COLUMN // 2
# bool [16, 16]: two different cells of one row, column or box.
PEERS = np.logical_or.reduce([x[:, None] == x[None] for x in (_ROW, _COLUMN, _BOX)])
PEERS &= ~np.eye(16, dtype=bool)


@types.pytree
class State:
  """One episode."""
  board: jax.Array     # int32 [16]; 0 where empty
  solution: jax.Array  # int32 [16]; 1 to 4
  rank: jax.Array      # int32 [16]; when a cell was emptied; the next to fill has the largest
  empty: jax.Array     # int32 []; cells that were empty at the start
  turn: jax.Array      # int32 []
  noise: jax.Array     # uint32 [2]; seed of the episode's noise


@functools.cache
def _boards():
  """The 12 boards [12, 16] whose first row is 1 2 3 4, and ranks [12, ORDERS, 16]."""
  boards = []
  rows = list(itertools.permutations(range(1, 5)))
  for rest in itertools.product(rows, repeat=3):
    board = np.concatenate([rows[0], *rest])
    if not np.any(PEERS & (board[:, None] == board[None])):
      boards.append(board)
  rng = np.random.default_rng(0)
  ranks = np.full((len(boards), ORDERS, 16), 99)
  for board, ranks_O16 in zip(boards, ranks):
    for rank in ranks_O16:
      while True:
        rank[:] = 99
        for i in range(EMPTY[-1]):
          seen = np.stack([PEERS[:, (board == d) & (rank == 99)].any(1) for d in range(1, 5)])
          single = np.flatnonzero((rank == 99) & (seen.sum(0) == 3))
          if not len(single):
            break
          rank[rng.choice(single)] = i
        else:
          break
  return np.stack(boards), ranks


def make(*, max_level: int = 4, macro: int = 1, spare: int = 2) -> base.Task:
  """Boards of levels 1 to `max_level`.

  Args:
    max_level: largest level, 1 to 7; `level` defaults to it.
    macro: cells that one action writes, 1 to 4.
    spare: turns that may be wasted before the time limit.
  """
  if not 1 <= max_level <= len(EMPTY):
    raise ValueError(f'ladder: max_level must be 1 to {len(EMPTY)}, got {max_level}')
  if not 1 <= macro <= 4 or spare < 0:
    raise ValueError('ladder: macro must be 1 to 4 and spare at least 0, got '
                     f'macro={macro}, spare={spare}')
  boards, ranks = (jnp.asarray(x, jnp.int32) for x in _boards())
  names = jnp.asarray(list(itertools.permutations(range(1, 5))), jnp.int32)
  counts = jnp.asarray(EMPTY, jnp.int32)
  cells = jnp.arange(16)

  def turns(empty):
    return (empty + macro - 1) // macro + spare

  def following(board, rank):
    """Index of the cell to fill next."""
    return jnp.argmax(jnp.where(board == 0, rank, -1)).astype(jnp.int32)

  def show(board, rank, marked):
    here = marked & (cells == following(board, rank))
    text = jnp.where(board > 0, DIGIT - 1 + board, jnp.where(here, NEXT, BLANK))
    return text.astype(jnp.int32), jnp.ones(16, bool)

  def noise_of(key):
    return jax.random.bits(key, (2,), jnp.uint32)

  def reset(key, knobs):
    level = jnp.clip(jnp.asarray(knobs['level'], jnp.int32), 1, max_level)
    lower, unmarked, heldout = (jnp.asarray(knobs[k], jnp.float32)
                                for k in ('lower', 'unmarked', 'heldout'))
    draw = jax.random.uniform(jax.random.fold_in(key, 0), (4,))
    other = jax.random.uniform(jax.random.fold_in(key, 2), (2,))
    pick = lambda u, n: jnp.minimum((u * n).astype(jnp.int32), n - 1)
    level = jnp.where(other[0] < lower, 1 + pick(other[1], level), level)
    known = len(boards) - HELDOUT
    which = jnp.where(heldout > 0, known + pick(draw[0], HELDOUT), pick(draw[0], known))
    solution = names[pick(draw[1], len(names))][boards[which] - 1]
    rank = ranks[which, pick(draw[2], ORDERS)]
    empty = counts[level - 1]
    board = jnp.where(rank < empty, 0, solution)
    state = State(board, solution, rank, empty, jnp.int32(0), noise_of(jax.random.fold_in(key, 1)))
    return state, *show(board, rank, draw[3] >= unmarked)

  def step(state, action, valid, knobs):
    unmarked, subgoal = (jnp.asarray(knobs[k], jnp.float32) for k in ('unmarked', 'subgoal'))
    board = state.board
    for i in range(0, 2 * macro, 2):
      digit = action[i + 1] - DIGIT + 1
      legal = valid[i] & valid[i + 1] & (digit >= 1) & (digit <= 4)
      board = jnp.where((cells == action[i] - CELL) & (board == 0) & legal, digit, board)
    right = jnp.sum((board == state.solution) & (state.board == 0)).astype(jnp.float32)
    full = jnp.all(board > 0)
    success = jnp.all(board == state.solution).astype(jnp.float32)
    noise = jax.random.wrap_key_data(state.noise, impl='threefry2x32')
    draw = jax.random.uniform(jax.random.fold_in(noise, state.turn))
    after = State(board, state.solution, state.rank, state.empty, state.turn + 1, state.noise)
    reward = subgoal * right / state.empty + (1 - subgoal) * success
    return base.Step(after, *show(board, state.rank, draw >= unmarked), reward, success, full,
                     ~full & (after.turn >= turns(state.empty)))

  def state_id(state):
    board, solution = state.board, state.solution
    wrong = jnp.any((board > 0) & (board != solution))
    values = jnp.concatenate([board, solution, state.rank,
                              jnp.stack([state.empty, state.turn])])
    return ids.pack(values, ((state.empty, 4), (jnp.sum(board == 0), 4), (wrong, 1)))

  def potential(state_id, knobs):
    del knobs
    empty, left, wrong = ids.unpack(state_id, (4, 4, 1))
    return jnp.where(wrong > 0, 0.0, 1 - left / jnp.maximum(empty, 1))

  def expert(state, key):
    del key
    board, action = state.board, []
    for _ in range(macro):
      cell = following(board, state.rank)
      action += [CELL + cell, DIGIT - 1 + state.solution[cell]]
      board = jnp.where(cells == cell, state.solution, board)
    return jnp.stack(action).astype(jnp.int32), jnp.ones(2 * macro, bool)

  return base.Task(
      vocab=VOCAB, prompt_len=16, action_len=2 * macro, observation_len=16,
      max_turns=int(turns(EMPTY[max_level - 1])), stop_ids=(),
      knobs=dict(level=max_level, lower=0.0, unmarked=0.0, subgoal=0.0, heldout=0), reset=reset,
      reseed=lambda state, key: dataclasses.replace(state, noise=noise_of(key)), step=step,
      state_id=state_id, expert=expert, potential=potential, alike=((DIGIT, 4),))
