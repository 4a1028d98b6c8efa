"""Error and ranking of critics by turn, lag and training age, against exact values of `horizon`.

All runs without lag are one program: online (policy and critic learn), dead (the critic has a
learning rate of 0), and fixed policies at several horizons, of which the critic alone learns. The
lag is a static size, so each other one is a program of its own. Seeds have the same warm start and
the same random numbers in all arms of one horizon. At each look `study/checkup.py` plays fresh
episodes under the weights of that step. Rows:

  part 'episode'   health over the episode at every look
  part 'turn'      health by turn at the first and the last look
  part 'warm_up'   fixed policies: critic-only steps until 90 % of the way to the best is made
"""

import dataclasses

from configs import vc_ppo
from grpo import build
from grpo.learn import loop
from grpo.study import checkup

NEVER = 1_000_000  # steps of warm-up that no run has


@dataclasses.dataclass(frozen=True)
class Size:
  """What a run takes."""
  seeds: int
  turns: tuple[int, ...]   # of the fixed policies; the longest is that of all other arms
  lags: tuple[int, ...]
  steps: int
  every: int               # steps from one look to the next
  episodes: int            # of a look
  rollouts: int            # of a step
  decisive: int = 4


SIZES = dict(
    smoke=Size(seeds=2, turns=(4, 6), lags=(0, 1), steps=4, every=4, episodes=32, rollouts=8),
    small=Size(seeds=8, turns=(4, 8, 12), lags=(0, 2, 8), steps=40, every=10, episodes=192,
               rollouts=32),
    full=Size(seeds=32, turns=(4, 16, 64), lags=(0, 1, 2, 4, 8), steps=1000, every=50,
              episodes=2048, rollouts=256))
RATE = 3e-3  # of the critics that learn


def config(size: str, lag: int):
  """VC-PPO on the longest horizon; what differs between the runs of a program is in `arms`."""
  how = SIZES[size]
  c = vc_ppo.get_config('full' if size == 'full' else 'smoke')
  c.task.horizon, c.task.decisive, c.task.visibility = max(how.turns), how.decisive, 0.5
  c.window.turns = max(how.turns)
  c.sample.prompts, c.sample.lag = how.rollouts, lag
  c.steps, c.log_every, c.audit.every = how.steps, how.every, how.every
  c.checkpoint.every, c.evaluate.prompts = how.steps, 64
  c.method.critic.updates, c.train.minibatches = 4, 2
  if size != 'full':
    c.model.layers, c.model.heads, c.model.mlp = 1, 1, 32
    c.clone.prompts, c.train.learning_rate = 16, 1e-3
  if size == 'smoke':
    c.clone.steps = 0
  return c


def arms(size: str, lag: int) -> list[tuple[str, int, float, int]]:
  """(arm, turns, learning rate of the critic, its warm-up) of the runs of one program."""
  turns = SIZES[size].turns
  if lag:
    return [('online', max(turns), RATE, 0)]
  return [('online', max(turns), RATE, 0), ('dead', max(turns), 0.0, 0),
          *(('fixed', t, RATE, NEVER) for t in turns)]


def program(size: str, lag: int, tick) -> list[dict]:
  """Rows of all runs of one program."""
  how, c = SIZES[size], config(size, lag)
  lanes = [(seed, *arm) for arm in arms(size, lag) for seed in range(how.seeds)]
  seeds, names, turns, rates, warm_ups = zip(*lanes)
  settings = {'task.horizon': turns, 'method.critic.learning_rate': rates,
              'method.critic.warmup': warm_ups}
  looks = 1 + how.steps // how.every
  reader = checkup.Checkup(build.parts(c), episodes=how.episodes,
                           rollouts=looks * len(lanes) * how.episodes)
  out = []

  def look(step, params, critic_params):
    found = reader.run(params, critic_params, dict(horizon=turns), seeds)
    for (seed, arm, horizon, _, _), rows in zip(lanes, found, strict=True):
      keep = rows if step in (0, how.steps) else rows[:1]
      head = dict(arm=arm, horizon=horizon, lag=lag, seed=seed, step=step)
      out.extend(head | row for row in keep)
    tick()
    return []

  loop.run(c, seeds=list(seeds), settings=settings, audit=look)
  for seed, arm, horizon, *_ in lanes:
    if arm == 'fixed':
      curve = [r for r in out if (r['arm'], r['horizon'], r['seed'], r['part']) == (
          arm, horizon, seed, 'episode')]
      explained = [r['explained_value'] for r in curve]
      out.append(dict(arm=arm, horizon=horizon, lag=lag, seed=seed, part='warm_up',
                      warm_up=checkup.warm_up([r['step'] for r in curve], explained),
                      best=max(explained)))
  return out


def rows(size: str, progress) -> list[dict]:
  """Rows of results.csv."""
  how = SIZES[size]
  total, done = len(how.lags) * (1 + how.steps // how.every), 0

  def tick():
    nonlocal done
    done += 1
    progress(done, total)

  return [row for lag in how.lags for row in program(size, lag, tick)]
