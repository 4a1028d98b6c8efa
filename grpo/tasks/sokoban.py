"""Tier 4: push boxes onto goals. Small levels, made by playing backwards; dead ends are possible.

The board of size x size cells is shown each turn, row by row: `#` wall, `.` floor, `o` goal, `$`
box, `*` box on a goal, `@` player, `+` player on a goal. Around it is wall. An action is `up`,
`down`, `left` or `right`; walking into a box pushes it if the cell behind is free, else nothing
happens. Boxes cannot be pulled, so a box in a corner stays there: such an episode goes on, and
nothing says that it is lost.

Levels: boxes start on goals and the player pulls them away, `depth` random steps; the first one is
a pull. Of eight such plays the level is the step at which the boxes are farthest from their goals,
bends of their ways counted too. So at most `depth` moves solve it. The episode ends with success
when every box is on a goal; after twice the moves of that solution a time limit truncates it.

Knobs: `boxes` (1 to max_boxes), `depth` (1 to max_depth, moves of the backward play), `subgoal`
(share of the reward paid when more boxes than ever stand on goals, 0 to 1), `heldout`; and `walls`
(0 to max_walls, single cells inside), which says what levels there are and is no measure of
difficulty: without walls there are 75 levels, and with them many, but less room to go wrong. A
fifth of the pairs (walls, goal of the first box) is held out: the sum of the first goal and three
times each wall cell is a multiple of 5. Without walls this means goals on cells that were never
trained on.

Potential: 1 - (distance of boxes to their nearest goals) / (largest one). It knows no dead ends.

The expert knows the backward play and walks back after a stray walk; after a stray push it may be
lost. Its score from the start, the ceiling, is 1. Floors of uniform tokens, from 20,000 episodes
with one box on 4 x 4 cells without walls: 0.15 for depth 1, 0.02 for 4, 0.01 for 8; any one move
again and again: 0.25, 0.11, 0.03; `left` and `right` in turn: 0.37 for depth 1. Doing nothing: 0.
With two walls the floor of depth 8 rises to 0.05.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from grpo import types
from grpo.tasks import base
from grpo.tasks import ids

__all__ = ['make', 'State']

MOVES = ('up', 'down', 'left', 'right')
VOCAB = ('_', *MOVES, '#', '.', 'o', '$', '*', '@', '+')
MOVE, WALL = 1, 5
FOLDS = 5  # one level in five is held out
PLAYS = 8  # backward plays of which a level is the best


@types.pytree
class State:
  """One episode. Cells are 0 to N - 1; N is outside."""
  player: jax.Array  # int32 []
  boxes: jax.Array   # int32 [B]; -1 where there is none
  goals: jax.Array   # bool [N + 1]
  walls: jax.Array   # bool [N + 1]; the outside is wall
  best: jax.Array    # int32 []; most boxes on goals so far
  first: jax.Array   # int32 []; boxes on goals at the start
  plan: jax.Array    # int32 [M]; moves of the expert; the last of `left` comes next
  left: jax.Array    # int32 []
  limit: jax.Array   # int32 []; turns of the time limit
  turn: jax.Array    # int32 []


def _neighbours(size):
  """Cell one step on in each direction [4, N + 1]; N where that is outside."""
  row, column = np.divmod(np.arange(size * size), size)
  out = np.full((4, size * size + 1), size * size)
  for d, (down, right) in enumerate(((-1, 0), (1, 0), (0, -1), (0, 1))):
    r, c = row + down, column + right
    inside = (r >= 0) & (r < size) & (c >= 0) & (c < size)
    out[d, :-1] = np.where(inside, r * size + c, size * size)
  return out


def make(*, size: int = 4, max_boxes: int = 1, max_depth: int = 8, max_walls: int = 2) -> base.Task:
  """Levels of `size` x `size` cells; `boxes` and `depth` default to the largest, `walls` to 0.

  Args:
    size: cells of a side, 4 to 8.
    max_boxes: 1 to 3.
    max_depth: moves of the backward play, at least 1.
    max_walls: at most as many as leave half of the cells free.
  """
  if not 4 <= size <= 8 or not 1 <= max_boxes <= 3 or max_depth < 1:
    raise ValueError('sokoban: size must be 4 to 8, max_boxes 1 to 3 and max_depth at least 1, got '
                     f'{size}, {max_boxes} and {max_depth}')
  if not 0 <= max_walls <= size * size // 2:
    raise ValueError(f'sokoban: max_walls must be 0 to {size * size // 2}, got {max_walls}')
  N, B, max_turns = size * size, max_boxes, 2 * max_depth
  neighbour_np = _neighbours(size)
  neighbour = jnp.asarray(neighbour_np, jnp.int32)
  twice = jnp.asarray(np.stack([row[row] for row in neighbour_np]), jnp.int32)
  cells = jnp.arange(N + 1)
  row, column = np.divmod(np.arange(N), size)
  distance = np.abs(row[:, None] - row[None]) + np.abs(column[:, None] - column[None])
  distance = jnp.asarray(np.pad(distance, (0, 1)), jnp.int32)
  opposite = lambda d: d ^ 1
  holds = lambda boxes: jnp.any(boxes[:, None] == cells[None], axis=0)

  def show(state):
    what = 1 + state.goals + 2 * holds(state.boxes)
    what = jnp.where(cells == state.player, jnp.where(state.goals, 6, 5), what)
    return (WALL + jnp.where(state.walls, 0, what))[:N].astype(jnp.int32), jnp.ones(N, bool)

  def walk(state, d):
    """(player, boxes, whether the player moved, whether a box did) after a move."""
    ahead = neighbour[d, state.player]
    pushed = state.boxes == ahead
    behind = neighbour[d, ahead]
    push = jnp.any(pushed)
    free = ~state.walls[behind] & ~jnp.any(state.boxes == behind)
    moves = ~state.walls[ahead] & (~push | free)
    boxes = jnp.where(pushed & moves, behind, state.boxes)
    return jnp.where(moves, ahead, state.player), boxes, moves, push & moves

  def backward(walls, goals, player, first, depth, draws):
    """Plays backwards for `depth` steps: (score, boxes, player, plan, its length) of the best step.

    The score is the distance of the boxes from their goals plus the bends of their ways.
    """
    def pull(carry, item):
      player, boxes, last, way, bends, plan, count, best = carry
      index, draw = item
      directions = jnp.arange(4)
      back = neighbour[opposite(directions), player]
      front = neighbour[directions, player]
      box = holds(boxes)
      legal = ~walls[back] & ~box[back] & (directions != last)
      score = draw[:4] + jnp.where(box[front], 0.5, 0.0)
      score = jnp.where(index == 0, directions == first, jnp.where(legal, score, -1.0))
      d = jnp.argmax(score).astype(jnp.int32)
      go = ((index == 0) | jnp.any(legal)) & (index < depth)
      grab = (boxes == front[d]) & go & ((index == 0) | (draw[4] < 0.8))
      pulls = jnp.any(grab)
      boxes = jnp.where(grab, player, boxes)
      player = jnp.where(go, back[d], player)
      plan = jnp.where((jnp.arange(plan.shape[0]) == count) & go, d, plan)
      count = count + go.astype(jnp.int32)
      bends = bends + (pulls & (d != way)).astype(jnp.int32)
      way = jnp.where(pulls, d, way)
      # The opposite of a plain step would only take it back.
      last = jnp.where(go & ~pulls, opposite(d), -1)
      far = jnp.sum(jnp.where(boxes >= 0, distance[boxes, goals], 0))
      score = jnp.where(far > 0, far + bends, 0)
      best = jax.tree.map(lambda new, old: jnp.where(score > best[0], new, old),
                          (score, boxes, player, count), best)
      return (player, boxes, last, way, bends, plan, count, best), None

    plan = jnp.zeros(max_depth + max_turns, jnp.int32)
    zero, none = jnp.int32(0), jnp.int32(-1)
    start = player, goals, none, none, zero, plan, zero, (zero, goals, player, zero)
    (*_, plan, _, best), _ = jax.lax.scan(pull, start, (jnp.arange(max_depth), draws))
    return *best[:3], plan, best[3]

  def reset(key, knobs):
    count, depth, blocks = (
        jnp.clip(jnp.asarray(knobs[k], jnp.int32), low, high)
        for k, low, high in (('boxes', 1, B), ('depth', 1, max_depth), ('walls', 0, max_walls)))
    side = jnp.asarray(knobs['heldout'], jnp.float32) > 0
    low, high = N + 4 * N, N + 4 * N + N
    draw = jax.random.uniform(key, (high + PLAYS * 5 * max_depth,))
    rank = jnp.sum(draw[:N, None] > draw[None, :N], axis=1)
    walls = jnp.concatenate([rank < blocks, jnp.ones(1, bool)])

    def openings(walls):
      """Where a first pull is possible [4, N]: goal, player and the cell behind it are free."""
      mark = (cells[:N] + 3 * jnp.sum(jnp.where(walls[:N], cells[:N], 0))) % FOLDS == 0
      free = ~walls[neighbour[:, :N]] & ~walls[twice[:, :N]]
      return free & (~walls[:N] & (mark == side))[None]

    can = openings(walls)
    # Few boards with walls have no place for a pull; they lose their walls.
    walls = jnp.where(jnp.any(can), walls, cells == N)
    can = jnp.where(jnp.any(can), can, openings(cells == N))
    best = jnp.argmax(jnp.where(can.reshape(-1), draw[N:low], -1.0)).astype(jnp.int32)
    away, goal = best // N, best % N
    player = neighbour[away, goal]
    used = walls | (cells == goal) | (cells == player) | (cells == twice[away, goal])
    order = jnp.where(used[:N], 2.0, draw[low:high])
    goals = [goal]
    for i in range(1, B):
      other = jnp.argmin(order).astype(jnp.int32)
      goals.append(jnp.where(i < count, other, -1))
      order = jnp.where(cells[:N] == other, 2.0, order)
    goals = jnp.stack(goals)
    play = lambda draws: backward(walls, goals, player, opposite(away), depth, draws)
    score, *plays = jax.vmap(play)(draw[high:].reshape(PLAYS, max_depth, 5))
    boxes, player, plan, left = (x[jnp.argmax(score)] for x in plays)
    at = holds(goals)
    home = jnp.sum((boxes >= 0) & at[boxes])
    state = State(player, boxes, at, walls, home, home, plan, left, 2 * left, jnp.int32(0))
    return state, *show(state)

  def step(state, action, valid, knobs):
    subgoal = jnp.asarray(knobs['subgoal'], jnp.float32)
    d = action[0] - MOVE
    legal = valid[0] & (d >= 0) & (d < 4)
    d = jnp.clip(d, 0, 3)
    player, boxes, moves, push = walk(state, d)
    moves, push = moves & legal, push & legal
    planned = moves & (d == state.plan[jnp.maximum(state.left - 1, 0)])
    stray = moves & ~planned & ~push
    left = state.left - planned.astype(jnp.int32) + stray.astype(jnp.int32)
    spot = (jnp.arange(state.plan.shape[0]) == state.left) & stray
    boxes = jnp.where(legal, boxes, state.boxes)
    there = (boxes >= 0) & state.goals[boxes]
    total, home = jnp.sum(boxes >= 0), jnp.sum(there)
    best = jnp.maximum(state.best, home)
    won = home == total
    after = dataclasses.replace(
        state, player=jnp.where(moves, player, state.player), boxes=boxes, best=best,
        plan=jnp.where(spot, opposite(d), state.plan), left=jnp.maximum(left, 0),
        turn=state.turn + 1)
    success = won.astype(jnp.float32)
    gain = (best - state.best) / jnp.maximum(total - state.first, 1)
    return base.Step(after, *show(after), subgoal * gain + (1 - subgoal) * success, success, won,
                     ~won & (after.turn >= state.limit))

  def far(state):
    """Sum over boxes of the distance to the nearest goal."""
    each = jnp.min(jnp.where(state.goals[None, :N], distance[state.boxes, :N], 2 * size), axis=1)
    return jnp.sum(jnp.where(state.boxes >= 0, each, 0))

  def state_id(state):
    values = jnp.concatenate([state.goals + 2 * state.walls + 4 * holds(state.boxes), jnp.stack(
        [state.player, state.best, state.first, state.limit, state.turn])])
    return ids.pack(values, ((jnp.sum(state.boxes >= 0), 2), (far(state), 6)))

  def potential(state_id, knobs):
    del knobs
    count, far = ids.unpack(state_id, (2, 6))
    return 1 - far / (jnp.maximum(count, 1) * (2 * size - 2))

  def expert(state, key):
    del key
    return (MOVE + state.plan[jnp.maximum(state.left - 1, 0)])[None], jnp.ones(1, bool)

  return base.Task(
      vocab=VOCAB, prompt_len=N, action_len=1, observation_len=N, max_turns=max_turns, stop_ids=(),
      knobs=dict(boxes=B, depth=max_depth, walls=0, subgoal=0.0, heldout=0), reset=reset,
      reseed=lambda state, key: state, step=step, state_id=state_id, expert=expert,
      potential=potential, alike=((VOCAB.index('$'), 2),))
