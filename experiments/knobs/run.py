"""Success of three fixed policies against each knob, with all other knobs as in the easy case.

  expert    the scripted one, which sees the world; its score is the ceiling
  random    uniform words; its score is the floor
  trained   a transformer that imitated the expert in the easy case, and is not trained on

Nothing is trained under a knob: the question is what each knob does, not what can be learned. All
settings of a task are scored on the same instances and the same noise, so a difference is the
knob's. A row is (task, knob, value, policy).
"""

import importlib
import json

from configs import base
from grpo import keys
from grpo.learn import actors
from grpo.study import play

POLICIES = ('expert', 'random', 'trained')
LONG = 1024  # room of the tasks on which expert and random play the longest horizons

# Per task: rooms and values of the easy case, and the values of each knob.
CHANCE = (0.0, 0.05, 0.1, 0.2, 0.4)
SHARE = (0.0, 0.25, 0.5, 1.0)
TASKS = dict(
    horizon=(dict(horizon=8, max_turns=16, goals=2, max_sources=3), dict(
        horizon=(4, 8, 16, 32, 64, 256, 1024), decisive=(1, 2, 4, 8), visibility=SHARE,
        delay=(0, 2, 4, 6), drift=CHANCE, undo=SHARE, switch=CHANCE, sources=(1, 2, 3),
        unreliable=SHARE, unmarked=(0.0, 1.0))),
    line=(dict(max_turns=16), dict(
        horizon=(9, 12, 16, 32, 64, 256, 1024), decisive=(1, 2, 3), visibility=SHARE,
        delay=(0, 1, 2, 3), drift=CHANCE, undo=SHARE, switch=CHANCE, unreliable=SHARE,
        rules=(0, 1, 2))),
    meeting=(dict(max_turns=16), dict(
        horizon=(4, 8, 16, 32, 64, 256, 1024), roles=(1, 2, 3), visibility=SHARE,
        delay=(0, 2, 4, 6), drift=CHANCE, undo=SHARE, switch=CHANCE, unreliable=SHARE,
        rules=(0, 1, 2))),
    triage=(dict(max_turns=16), dict(
        horizon=(4, 8, 16, 32, 64, 256, 1024), visibility=SHARE, delay=(0, 1, 2, 4), drift=CHANCE,
        undo=SHARE, switch=CHANCE, sources=(1, 2, 3), unreliable=SHARE, rules=(0, 1, 2))))
# Success in the easy case at which imitation ends, and its limit of steps.
EPISODES = dict(smoke=64, small=512, full=8192)
GOAL = dict(smoke=0.05, small=0.9, full=0.97)
STEPS = dict(smoke=20, small=600, full=4000)
SMOKE = ('horizon',)


def config(task: str, size: str):
  """The easy case of a task, and how its policy is trained."""
  c = base.get_config(f'smoke,{task}')
  for field, value in TASKS[task][0].items():
    c.task[field] = value
  c.window.turns = c.task.max_turns
  c.clone.pass_rate, c.clone.steps, c.clone.every = GOAL[size], STEPS[size], 20
  c.clone.prompts, c.clone.noise = 64 if size != 'smoke' else 16, 0.1
  c.evaluate.prompts = EPISODES[size]
  if size == 'full':
    c.model.hidden, c.model.mlp = 128, 256
  return c


def settings(task: str, size: str) -> list[tuple[str, float]]:
  """Pairs of (knob, value); a smoke run has the ends of two knobs."""
  grid = TASKS[task][1]
  if size == 'smoke':
    return [(k, v) for k in ('switch', 'horizon') for v in (grid[k][0], grid[k][3])]
  return [(knob, value) for knob, values in grid.items() for value in values]


def trained(c, todo: list[tuple[str, float]]) -> list[float]:
  """Success of the trained policy in each setting."""
  easy = {f'task.{knob}': float(c.task[knob]) for knob, _ in todo}
  params, _ = actors.warm_start(c, [0], settings={name: [x] for name, x in easy.items()})
  subset, names = actors.shared(c, sorted(easy))
  evaluate = actors.programs(json.dumps(subset, sort_keys=True), names)[0]
  out = []
  for knob, value in todo:
    _, values = actors.traced({k: [v] for k, v in (easy | {f'task.{knob}': value}).items()})
    out.append(float(evaluate(params, keys.root(1)[None], 0, values)[0][0]))
  return out


def scripted(task: str, c, todo: list[tuple[str, float]], policy: str) -> list[float]:
  """Success of the expert or of uniform words in each setting."""
  make = importlib.import_module(f'grpo.tasks.{task}').make
  rooms = {k: v for k, v in TASKS[task][0].items() if k in ('goals', 'max_sources')}
  made = make(max_turns=LONG, **rooms)
  act = made.expert if policy == 'expert' else play.uniform(made)
  score = play.scores(made, act, c.evaluate.prompts)
  easy = {k: c.task[k] for k in made.knobs if k in c.task}
  return [float(score(easy | {knob: value}, keys.root(1))[0].mean()) for knob, value in todo]


def rows(size: str, progress) -> list[dict]:
  """Rows of results.csv."""
  names = SMOKE if size == 'smoke' else tuple(TASKS)
  out, done, total = [], 0, len(names) * len(POLICIES)
  for name in names:
    c = config(name, size)
    todo = settings(name, size)
    room = [(knob, v) for knob, v in todo if knob != 'horizon' or v <= c.task.max_turns]
    for policy in POLICIES:
      where = room if policy == 'trained' else todo
      found = trained(c, room) if policy == 'trained' else scripted(name, c, todo, policy)
      out += [dict(task=name, knob=knob, value=value, policy=policy, success=success,
                   episodes=c.evaluate.prompts, easy=c.task[knob])
              for (knob, value), success in zip(where, found, strict=True)]
      done += 1
      progress(done, total)
  return out
