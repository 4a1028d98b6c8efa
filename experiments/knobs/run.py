"""Success of three fixed policies against each knob, with all other knobs as in the easy case.

  expert    the scripted one, which sees the world; its score is the ceiling
  random    uniform words; its score is the floor
  trained   a transformer that imitated the expert in the easy case, and is not trained on

Nothing is trained under a knob: the question is what each knob does, not what can be learned. All
settings of a task are scored on the same instances and the same noise, so a difference is the
knob's. A row is (task, knob, value, policy).

What windows lose is no knob of a task: `windows` takes such policies in three cases and changes the
windows of the trained one, which imitated in a single window. A row's task is then a case. So it is
in `helped`, where a policy imitated in a setting in which a knob can help.
"""

import importlib
import json

import jax.numpy as jnp
import numpy as np

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

# Cases of windows, by task: rooms and values that differ from the easy case; then the windows, in
# new turns (with a carry of one), and how many turns of a carry of four, in windows of four, are
# lost. In `horizon` with a drift the mode is named once and counts later; in `triage` two signs
# are seen on different turns; in `horizon` without drift the turn at hand says all.
CASES = dict(
    horizon=dict(horizon_cue=dict(drift=0.0), horizon_mode=dict(drift=0.2)),
    triage=dict(triage_signs=dict(drift=0.0)))
ROOMS = dict(horizon=dict(horizon=16), triage=dict(horizon=8, max_turns=16))
# Cases of knobs that help, by name: the task, what differs from the easy case, the knob and its
# values. The policy imitates under what differs, the value of the knob included. Of two sources
# that differ nobody knows which one lies, so their number is odd.
HELPS = dict(
    triage_worse=('triage', dict(drift=0.2, visibility=0.5), 'visibility', SHARE),
    horizon_votes=('horizon', dict(max_sources=5, sources=5, unreliable=0.4), 'sources', (1, 3, 5)))
WINDOWS = dict(horizon=((16, 8, 4, 2, 1), (0, 1, 2, 3)), triage=((16, 4, 2, 1), ()))
CARRY = 4
# Turns of the longest episodes of the trained policies: their room, and in `line`, where 16 turns
# are only four more than in the easy case, twice that, in one window.
REACH = dict(horizon=16, line=32, meeting=16, triage=16)


def config(task: str, size: str):
  """The easy case of a task, and how its policy is trained."""
  return _config(task, size, TASKS[task][0])


def _config(task, size, values):
  c = base.get_config(f'smoke,{task}')
  for field, value in values.items():
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
    return [(k, v) for k in ('switch', 'horizon') for v in (grid[k][0], grid[k][2])]
  return [(knob, value) for knob, values in grid.items() for value in values]


def trained(c, todo: list[tuple[str, float]]) -> list[float]:
  """Success of the trained policy in each setting."""
  easy = {f'task.{knob}': float(c.task[knob]) for knob, _ in todo}
  params, _ = actors.warm_start(c, [0], settings={name: [x] for name, x in easy.items()})
  subset, names = actors.shared(c, sorted(easy))
  reach = REACH[c.task.name]
  wide = subset | dict(task=subset['task'] | dict(max_turns=reach),
                       window=subset['window'] | dict(turns=reach))
  evaluates = [actors.programs(json.dumps(x, sort_keys=True), names)[0] for x in (subset, wide)]
  out = []
  for knob, value in todo:
    evaluate = evaluates[knob == 'horizon' and value > c.task.max_turns]
    _, values = actors.traced({k: [v] for k, v in (easy | {f'task.{knob}': value}).items()})
    out.append(float(evaluate(params, keys.root(1)[None], 0, values)[0][0]))
  return out


def scripted(task: str, c, todo: list[tuple[str, float]], policy: str) -> list[float]:
  """Success of the expert or of uniform words in each setting."""
  make = importlib.import_module(f'grpo.tasks.{task}').make
  rooms = {k: c.task[k] for k in ('goals', 'max_sources') if k in TASKS[task][0]}
  made = make(max_turns=LONG, **rooms)
  act = made.expert if policy == 'expert' else play.uniform(made)
  score = play.scores(made, act, c.evaluate.prompts)
  easy = {k: c.task[k] for k in made.knobs if k in c.task}
  return [float(score(easy | {knob: value}, keys.root(1))[0].mean()) for knob, value in todo]


def reached(task: str, todo: list[tuple[str, float]]) -> list[tuple[str, float]]:
  """The settings that the trained policy plays, too."""
  return [(knob, v) for knob, v in todo if knob != 'horizon' or v <= REACH[task]]


def group(label: str, task: str, c, todo: list[tuple[str, float]], policy: str) -> list[dict]:
  """Rows of one policy, under the name `label`."""
  where = reached(task, todo) if policy == 'trained' else todo
  found = trained(c, where) if policy == 'trained' else scripted(task, c, todo, policy)
  return [dict(task=label, knob=knob, value=value, policy=policy, success=success,
               episodes=c.evaluate.prompts, easy=c.task[knob])
          for (knob, value), success in zip(where, found, strict=True)]


def help_config(case: str, size: str):
  """The setting in which the policy of a case of HELPS imitates."""
  task, values, _, _ = HELPS[case]
  return _config(task, size, TASKS[task][0] | values)


def help_settings(case: str, size: str) -> list[tuple[str, float]]:
  """Pairs of (knob, value) of a case of HELPS; a smoke run has the ends."""
  _, _, knob, values = HELPS[case]
  return [(knob, value) for value in (values if size != 'smoke' else (values[0], values[-1]))]


def window_settings(task: str, size: str) -> list[tuple[str, int]]:
  """Pairs of (knob of the windows, value); a smoke run has two."""
  turns, lost = WINDOWS[task]
  if size == 'smoke':
    turns, lost = turns[:1], lost[1:2]
  return [('window.turns', w) for w in turns] + [('window.forget', f) for f in lost]


def window_config(task: str, size: str):
  """A task with room for the cases of windows, in one window that loses nothing."""
  c = base.get_config(f'smoke,{task}')
  how = config(task, size)
  c.model, c.clone, c.evaluate = how.model, how.clone, how.evaluate
  for field, value in ROOMS[task].items():
    c.task[field] = value
  c.window.turns = c.task.max_turns
  return c


def windows(task: str, size: str) -> list[dict]:
  """Rows of the cases of a task: one policy for each case, cloned in one window."""
  cases, todo = CASES[task], window_settings(task, size)
  c = window_config(task, size)
  drift = [values['drift'] for values in cases.values()]
  params, _ = actors.warm_start(c, [0] * len(drift), settings={'task.drift': drift})
  root = jnp.stack([keys.root(1)] * len(drift))
  out = []
  for knob, value in todo:
    here = window_config(task, size)
    here.window.turns, here.window.carry = (value, 1) if knob == 'window.turns' else (CARRY, CARRY)
    lost = [value if knob == 'window.forget' else 0] * len(drift)
    names, values = actors.traced({'task.drift': drift, 'window.forget': lost})
    subset, _ = actors.shared(here, names)
    evaluate = actors.programs(json.dumps(subset, sort_keys=True), names)[0]
    out.append(np.asarray(evaluate(params, root, 0, values)[0]))
  # Neither the expert, which sees the world, nor uniform words read a window: one score for all.
  module = importlib.import_module(f'grpo.tasks.{task}')
  made = module.make(max_turns=c.task.max_turns)
  result = []
  for i, (case, values) in enumerate(cases.items()):
    knobs = {k: c.task[k] for k in made.knobs if k in c.task} | values
    for policy in POLICIES:
      act = made.expert if policy == 'expert' else play.uniform(made)
      if policy != 'trained':
        score = play.scores(made, act, c.evaluate.prompts)(knobs, keys.root(1))[0].mean()
      for (knob, value), found in zip(todo, out, strict=True):
        result.append(dict(
            task=case, knob=knob, value=value, policy=policy,
            success=float(found[i] if policy == 'trained' else score),
            episodes=c.evaluate.prompts, easy=c.window[knob.split('.')[1]]))
  return result


def rows(size: str, progress) -> list[dict]:
  """Rows of results.csv."""
  names = SMOKE if size == 'smoke' else tuple(TASKS)
  helps = [case for case in HELPS if HELPS[case][0] in names]
  kept = [name for name in CASES if name in names]
  out, done, total = [], 0, (len(names) + len(helps)) * len(POLICIES) + len(kept)
  jobs = [(name, name, config(name, size), settings(name, size)) for name in names]
  jobs += [(case, HELPS[case][0], help_config(case, size), help_settings(case, size))
           for case in helps]
  for job in jobs:
    for policy in POLICIES:
      out += group(*job, policy)
      done += 1
      progress(done, total)
  for name in kept:
    out += windows(name, size)
    done += 1
    progress(done, total)
  return out
