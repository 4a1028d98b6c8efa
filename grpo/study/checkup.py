"""Health of the critics of many runs at once, by turn, and how they rank what a policy could do.

The measures are those of `health.py`. One more is `choice`: of two actions taken in the same latent
state of the same turn whose exact Q differ, does the better one lead to the higher predicted value?
P(yes) - P(no) over such pairs: Kendall's tau of the critic's value before the next turn with Q.
0 is chance. It is what a critic's one-step advantage ranks by (VinePPO, arXiv:2410.01679, section
5.4). The last turn has none: what follows it is the reward.

`warm_up` says when a critic is ready.
"""

from collections.abc import Mapping, Sequence
import math

import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo import types
from grpo.learn import compiling
from grpo.models import scoring
from grpo.rollout import sampler
from grpo.study import audit
from grpo.study import behaviour
from grpo.study import health
from grpo.study import oracle
from grpo.tasks import horizon

__all__ = ['Checkup', 'choice', 'warm_up']

_SMALL = 1e-5


class Checkup:
  """Plays and reads R runs of the task `horizon` in one program, and measures their critics."""

  def __init__(self, parts, *, episodes: int, rollouts: int = 0):
    """Builds; nothing is compiled yet.

    Args:
      parts: build.Parts with a critic.
      episodes: of each run and look; each starts from a prompt of its own.
      rollouts: episodes of all looks, which decide how much the compiler does; 0 for few.
    """
    audit.check(parts)
    self._parts, self._episodes = parts, episodes
    self._actions = parts.config['task']['actions']
    brief = compiling.options(parts.config['model'], rollouts * parts.layout.stream)
    self._play = jax.jit(jax.vmap(self._played), compiler_options=brief)
    self._solve = jax.jit(jax.vmap(self._solved), compiler_options=brief)

  def run(self, params, critic_params, knobs: Mapping[str, Sequence[float]],
          seeds: Sequence[int]) -> list[list[dict]]:
    """Rows of each run: part 'episode', then part 'turn'.

    Args:
      params: of the policies, leading axis R.
      critic_params: of the critics, leading axis R.
      knobs: those that differ from the config's, R values each.
      seeds: of the sampling, R.
    """
    R, parts = len(seeds), self._parts
    full = {k: jnp.broadcast_to(jnp.asarray(v, jnp.float32), R) for k, v in parts.knobs.items()}
    full |= {k: jnp.asarray(v, jnp.float32) for k, v in knobs.items()}
    roots = jnp.stack([keys.root(seed) for seed in seeds])
    seen = self._play(params, critic_params, roots, full)
    ids, right = np.asarray(seen['id']), np.asarray(seen['right'])
    means = [behaviour.mean(right[r], ids[r], actions=self._actions,
                            max_turns=parts.layout.max_turns) for r in range(R)]
    value, quality = self._solve(full, jnp.stack([m.right for m in means]), seen['id'], seen['hit'])
    got = {k: np.asarray(v) for k, v in seen.items()} | dict(
        value=np.asarray(value), quality=np.asarray(quality))
    return [_rows({k: v[r] for k, v in got.items()}, float(means[r].spread)) for r in range(R)]

  def _played(self, params, critic_params, root, knobs):
    """Turns of one run: ids, right, hit, predicted [N,H]; success [N]."""
    parts = self._parts
    heat, layout = parts.config['sample']['temperature'], parts.layout
    rollout = sampler.sample(
        parts.policy, params, parts.task, layout, knobs, keys.stream(root, 'checkup'), step=0,
        prompts=self._episodes, samples=1, temperature=heat)
    probs = behaviour.next_tokens(parts.policy, params, rollout, layout, heat)
    right_PGT = behaviour.right(probs, rollout, layout, self._actions)
    predicted_PGT = types.stream(scoring.values(parts.critic, critic_params, rollout, layout))
    ids_PGT = jnp.where(types.stream(rollout.mask), types.stream(rollout.state_id), 0)
    place_PGT = (jnp.maximum(ids_PGT, 1).astype(jnp.int32) - 1) % (12 * self._actions)
    wanted_N = horizon.ACTION + horizon.right_action(horizon.states(0, self._actions),
                                                     self._actions)
    hit_PGT = types.stream(rollout.tokens) == wanted_N[place_PGT]
    turns = jnp.asarray([p for p in layout.action_slots if p < ids_PGT.shape[2]])
    pick = lambda x: x[:, 0, turns]
    return dict(id=pick(ids_PGT), right=pick(right_PGT), hit=pick(hit_PGT),
                predicted=pick(predicted_PGT), success=rollout.success[:, 0])

  def _solved(self, knobs, right_HN, ids_NH, hit_NH):
    """Exact V before each turn, and exact Q of the action taken, [N,H]."""
    n = self._actions
    exact = behaviour.solve(knobs, right_HN, actions=n)
    rows = jnp.arange(12 * n)
    good_N = horizon.right_action(horizon.states(0, n), n)
    q = lambda action_N: oracle.lookup(exact.Q[:, rows, action_N], ids_NH)
    return oracle.lookup(exact.V, ids_NH), jnp.where(hit_NH, q(good_N), q((good_N + 1) % n))


def choice(predicted, quality, state, on) -> np.ndarray:
  """Sums for `choice` of every turn but the last: (right minus wrong order, pairs), [2,H-1].

  Args:
    predicted: value before each turn, [N,H].
    quality: exact Q of the action taken, [N,H].
    state: latent state, int [N,H]; pairs are of one state.
    on: the turn was played, bool [N,H].
  """
  H = predicted.shape[1]
  out = np.zeros((2, H - 1))
  for h in range(H - 1):
    both = on[:, h] & on[:, h + 1]
    for s in np.unique(state[both, h]):
      here = both & (state[:, h] == s)
      gap = np.subtract.outer(quality[here, h], quality[here, h])
      apart = gap > _SMALL
      order = np.sign(np.subtract.outer(predicted[here, h + 1], predicted[here, h + 1]))
      out[:, h] += (order * apart).sum(), apart.sum()
  return out


def _rows(got, spread):
  on = got['id'] > 0
  outcome = np.broadcast_to(got['success'][:, None], on.shape)
  arrays = [x[None] for x in (got['value'], got['predicted'], outcome, on)]
  score, pairs = choice(got['predicted'], got['quality'], got['id'], on)
  share = lambda a, b: float(a / b) if b else math.nan
  common = dict(success=float(got['success'].mean()), behaviour=spread)
  turns = [dict(part='turn', turn=h, **health.measure(*(x[..., h] for x in arrays)),
                choice=share(score[h], pairs[h]) if h < len(score) else math.nan,
                variance=float(np.var(got['value'][on[:, h], h], dtype=np.float64)), **common)
           for h in range(on.shape[1]) if on[:, h].any()]
  whole = health.measure(*arrays)
  ranks = [t['rank'] for t in turns if not math.isnan(t['rank'])]
  return [dict(part='episode', **whole | dict(rank=float(np.mean(ranks)) if ranks else math.nan),
               choice=share(score.sum(), pairs.sum()),
               variance=float(np.var(got['value'][on], dtype=np.float64)), **common), *turns]


def warm_up(steps: Sequence[float], explained: Sequence[float], *, share: float = 0.9) -> float:
  """Critic-only steps until the explained variance has made `share` of its way to its best.

  Between two looks the curve is a straight line. The way starts at the first look, but no lower
  than at 0, which a constant reaches. NaN where the best is not above that: no warm-up helps. Looks
  at which nothing varied (NaN) do not count.
  """
  x, y = np.asarray(steps, np.float64), np.asarray(explained, np.float64)
  x, y = x[~np.isnan(y)], y[~np.isnan(y)]
  if not len(y):
    return math.nan
  start, best = max(y[0], 0.0), y.max()
  if not best > start:
    return math.nan
  goal = start + share * (best - start)
  i = int(np.argmax(y >= goal))
  if i == 0:
    return float(x[0])
  return float(x[i - 1] + (x[i] - x[i - 1]) * (goal - y[i - 1]) / (y[i] - y[i - 1]))
