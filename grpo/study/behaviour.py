"""What a policy really does in the latent states of `horizon`, and the exact values of that.

A policy network reads a history; the chain of the task has latent states. The probability of the
right action is read from the logits at every visited turn and averaged in each state. For a policy
that looks at the current cue only, that is exact. Else the values are those of its mean behaviour,
and `spread`, how much it varies inside a state, says how far that may be from the truth.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from grpo import types
from grpo.study import oracle
from grpo.tasks import horizon

__all__ = ['Mean', 'next_tokens', 'right', 'mean', 'policy', 'solve']


@types.pytree
class Mean:
  """Mean behaviour in each latent state."""
  right: jax.Array    # f32 [H,N]; probability of the right action
  visits: jax.Array   # f32 [H,N]; how often the state was seen
  spread: jax.Array   # f32 []; root mean square deviation from `right` inside a state


def next_tokens(policy, params, rollout, layout, temperature) -> jax.Array:
  """Probabilities of all tokens before each action slot, f32 [P,G,S,A*slots,V].

  The token before an action slot is always real, so its state is that of the turn.
  """
  tokens_PNL, valid_PNL = types.rows(rollout.tokens), types.rows(rollout.valid)
  hidden_PNLD = policy.forward(params, None, tokens_PNL, valid_PNL)
  before = jnp.asarray(layout.action_slots) - 1
  logits = policy.logits(params, hidden_PNLD[:, :, before]).astype(jnp.float32) / temperature
  probs = jax.nn.softmax(logits, axis=-1)
  return probs.reshape(*rollout.mask.shape[:3], *probs.shape[2:])


def right(probs_PGSAV, rollout, layout, actions: int) -> jax.Array:
  """Probability of the right action at each trained token of `horizon`, f32 [P,G,T]; else 0."""
  state_PGT = types.stream(rollout.state_id)
  place = jnp.maximum(state_PGT, 1).astype(jnp.int32) - 1
  state = horizon.states(0, actions)
  token_N = horizon.ACTION + horizon.right_action(state, actions)
  token_PGT = token_N[place % (12 * actions)]
  full = jnp.zeros((*rollout.mask.shape, probs_PGSAV.shape[-1]))
  full = full.at[..., jnp.asarray(layout.action_slots), :].set(probs_PGSAV)
  full_PGTV = full.reshape(*token_PGT.shape, -1)
  right_PGT = jnp.take_along_axis(full_PGTV, token_PGT[..., None], axis=-1)[..., 0]
  return jnp.where(types.stream(rollout.mask), right_PGT, 0.0)


def mean(right_BT: np.ndarray, state_id_BT: np.ndarray, *, actions: int,
         max_turns: int) -> Mean:
  """Mean behaviour from the turns that were visited (ids of 0 are none).

  A state that was not seen gets the mean of its cue on that turn, else of the turn, else 1 / n.
  """
  N, on = 12 * actions, np.asarray(state_id_BT) > 0
  place = np.asarray(state_id_BT)[on].astype(np.int64) - 1
  x = np.asarray(right_BT, np.float64)[on]
  sums = lambda weight: np.bincount(place, weight, max_turns * N).reshape(max_turns, actions, 12)
  count, total, square = sums(np.ones_like(x)), sums(x), sums(x * x)
  table = np.full(count.shape, 1 / actions)
  for axes in ((1, 2), (2,), ()):
    n, s = (a.sum(axis=axes, keepdims=True) for a in (count, total))
    table = np.where(n > 0, s / np.maximum(n, 1), table)
  within = square - 2 * table * total + table**2 * count
  return Mean(jnp.asarray(table.reshape(max_turns, N), jnp.float32),
              jnp.asarray(count.reshape(max_turns, N), jnp.float32),
              jnp.float32(np.sqrt(max(within.sum() / max(len(x), 1), 0.0))))


def policy(right_HN, actions: int) -> Callable:
  """The policy of `oracle.solve` that is right with these probabilities.

  What is not the right action is a wrong one, also a token that is no action at all.
  """
  def of(state):
    p = right_HN[state.turn, horizon.index(state, actions)]
    return oracle.mixture(actions, p)(state)
  return of


def solve(knobs, right_HN, *, actions: int) -> oracle.Exact:
  """Exact values of the mean behaviour."""
  return oracle.solve(knobs, policy(right_HN, actions), actions=actions,
                      max_turns=right_HN.shape[0])
