"""How wrong is the credit of each arm of experiments/rollback? On the same policies, exactly.

The policies are those of one run for each setting and seed, that of the critic with lambda 0.95:
its clone, what it has become half of the way, and after the last step. At each of these looks every
estimator credits episodes of the same policy, and `study/judge.py` holds that against the exact
advantage. Estimators that share prefixes play episodes of their own (`plan` of `audit.Auditor`).
All see as many rows that are trained on, in batches as large as those of the sweep. Rows:

  part 'episode'   all measures, at every look
  part 'turn'      of the turns that decide, at the last look
"""

import dataclasses

import jax

from experiments.rollback import sweep
from grpo import build
from grpo.learn import loop
from grpo.study import audit
from grpo.study import judge
from scripts import cells

POLICY = sweep.CRITICS[0]   # the arm whose runs are looked at
LAMBDAS = (*sweep.LAMBDAS, 0.0)
# Estimator of the audit -> name here; those of branching are called as their arms.
NAMES = {'group z-score (GRPO)': sweep.BASE} | {
    f'{kind} critic, lambda {lam:g}': f'{shown} {lam:g}' for lam in LAMBDAS
    for kind, shown in (('trained', 'critic'), ('exact', 'exact critic'))}
MEASURES = ('sign', 'rank', 'noise', 'bias', 'offset', 'step_cosine', 'cosine')


@dataclasses.dataclass(frozen=True)
class Size:
  """What a run takes."""
  seeds: int
  batches: int        # of an audit, where a batch has all prompts of the sweep
  settings: tuple[str, ...]
  looks: int          # after the clone


SIZES = dict(smoke=Size(2, 2, ('undo 1',), 1),
             small=Size(10, 6, tuple(sweep.SETTINGS), 2),
             full=Size(16, 64, tuple(sweep.SETTINGS), 5))


def config(size: str, arm: str) -> dict:
  """Nested dicts of an arm of the sweep that is looked at."""
  cell = next(c for c in sweep.cells(size) if c.arm == arm)
  every = sweep.STEPS[size] // SIZES[size].looks
  changes = {k: v for k, v in cell.scalars.items() if k.startswith('method.')}
  return build.plain(cells.resolve(cell), changes | {'log_every': every, 'audit.every': every})


def auditors(size: str, looks: int) -> dict[str, tuple[audit.Auditor, int]]:
  """Arm -> its auditor and how many batches it takes; the arm BASE has group and critics.

  Args:
    size: of the experiment.
    looks: at policies, in all.
  """
  batches, made = SIZES[size].batches, {}
  for arm in (sweep.BASE, *sweep.TREES, *sweep.CONTINUATIONS):
    c = config(size, POLICY if arm == sweep.BASE else arm)
    parts, prompts = build.parts(c), c['sample']['prompts']
    if arm == sweep.BASE:
      prompts, options = sweep.PROMPTS[size], dict(critic=parts.critic, only=tuple(NAMES))
    else:
      own = {k: c['method'][k] for k in ('chunk', 'returns', 'advantages')} | dict(shape={})
      options = dict(own=own, plan=parts.branch, only=('raw outcome',))
    count = batches * sweep.PROMPTS[size] // prompts
    made[arm] = audit.Auditor(
        parts, prompts=prompts, group=sweep.GROUP,
        rollouts=looks * count * prompts * sweep.GROUP * sweep.played(arm), **options), count
  return made


def rows(size: str, progress) -> list[dict]:
  """Rows of results.csv."""
  how = SIZES[size]
  lanes = [(setting, *sweep.SETTINGS[setting], seed)
           for setting in how.settings for seed in range(how.seeds)]
  _, undo, visibility, seeds = zip(*lanes)
  looks = (1 + how.looks) * len(lanes)
  known, out, done = auditors(size, looks), [], 0

  def look(step, params, critic_params):
    nonlocal done
    last = step == sweep.STEPS[size]
    for i, (setting, undo, visibility, seed) in enumerate(lanes):
      knobs = dict(undo=undo, visibility=visibility)
      own, critic = jax.tree.map(lambda x, i=i: x[i], (params, critic_params))
      head = dict(setting=setting, undo=undo, visibility=visibility, seed=seed, step=step)
      for arm, (auditor, batches) in known.items():
        evidence = auditor.run(own, knobs, batches=batches, seed=seed,
                               critic_params=critic if arm == sweep.BASE else None)
        out.extend(head | row for row in _rows(evidence, arm, last))
      done += 1
      progress(done, looks)
    return []

  loop.run(config(size, POLICY), seeds=list(seeds),
           settings={'task.undo': undo, 'task.visibility': visibility}, audit=look)
  return out


def _rows(evidence, arm, turns):
  """Rows of what an auditor saw. Intervals of the judge are left out: those here are over seeds."""
  names = NAMES if arm == sweep.BASE else {audit.OWN: arm}
  for row in judge.rows(evidence, samples=2, turns=turns):
    turn = row.get('turn', 0)
    if row['estimator'] in names and turn * sweep.DECISIVE % sweep.TURNS < sweep.DECISIVE:
      keep = ('part', 'turn', *MEASURES, 'success', 'spread')
      yield dict(arm=names[row['estimator']]) | {k: row[k] for k in keep if k in row}
