"""How wrong is each estimator of credit, on rollouts of a policy? A table, audit.csv and audit.png.

  python -m scripts.audit --config=configs/grpo.py:smoke
  python -m scripts.audit --config=configs/grpo.py:smoke --visibilities=0,0.5,1 --out=runs/audit
  python -m scripts.audit --config=configs/sao.py:smoke --horizons=2,8 --config.task.decisive=2
  python -m scripts.audit --workdir=runs/sao --prompts=16 --group=8 --batches=64
  python -m scripts.audit --config=configs/grpo.py:smoke --estimators='group z-score (GRPO)'
  python -m scripts.audit --workdir=runs/sao --live

With --config alone the policy is the warm start of that config (clone.steps=0: random weights).
With --workdir it is that of a run by scripts.train, at every checkpoint it kept, and the run's own
critic is audited too ('trained critic, ...'; its health against exact values is in critic.csv, see
grpo/study/health.py). The truth is exact, so the task is `horizon`. All estimators see the same
rollouts. What each column means is in grpo/study/judge.py; intervals are 95 %, over batches.

With --live nothing is computed: what a run with config.audit.every logged while it trained
(audit.jsonl) is drawn against the training step, in live.png, and its last audit is printed.
Intervals are over the seeds, those of a single seed over its batches.
"""

import pathlib

from absl import flags

from scripts import cells
from scripts import cli

_CONFIG = cli.config_flag('configs/grpo.py:smoke')
_WORKDIR = cli.folder_flag('workdir', 'Folder of a run by scripts.train, in place of --config.')
_OUT = cli.folder_flag('out', 'Folder for audit.csv and audit.png; by default --workdir, or '
                       'runs/audit.')
_PROMPTS = flags.DEFINE_integer('prompts', 8, 'Prompts of a batch.', lower_bound=1)
_GROUP = flags.DEFINE_integer('group', 8, 'Samples of a prompt; at least 2.', lower_bound=2)
_BATCHES = flags.DEFINE_integer('batches', 16, 'Batches; intervals are over them.', lower_bound=2)
_NOISE = flags.DEFINE_float('noise', 0.1, 'Spread of the errors of the noisy critic.',
                            lower_bound=0.0)
_HORIZONS = flags.DEFINE_list('horizons', [], 'Values of task.horizon, up to task.max_turns.')
_VISIBILITIES = flags.DEFINE_list('visibilities', [], 'Values of task.visibility.')
_ESTIMATORS = flags.DEFINE_multi_string('estimators', [], 'Only these; may be repeated.')
_SEED = flags.DEFINE_integer('seed', 0, 'Of the sampling, and of the warm start.', lower_bound=0)
_LIVE = flags.DEFINE_bool('live', False, 'Draw audit.jsonl of --workdir; only --out counts beside.')
_EVERY = flags.DEFINE_bool('every', True, 'Every checkpoint; --noevery takes the newest.')


def _numbers(flag, kind, low, high):
  """Values of a list flag. Raises UsageError."""
  try:
    found = [kind(x) for x in flag.value]
  except ValueError as error:
    raise cli.UsageError(f'--{flag.name}={",".join(flag.value)}: numbers, such as 2,8') from error
  for x in found:
    if not low <= x <= high:
      raise cli.UsageError(f'--{flag.name}={x:g}: must be from {low:g} to {high:g}')
  return found or [None]


def _policies():
  """(parts, list of (step, policy parameters, critic parameters or None))."""
  import jax
  import numpy as np

  from grpo import build
  from grpo import check
  from grpo import keys
  from grpo.learn import actors
  from grpo.study import audit
  from grpo.study import evaluation

  first = lambda tree: jax.tree.map(lambda x: x[0], tree)
  if _WORKDIR.value:
    config, _, states = evaluation.load_all(pathlib.Path(_WORKDIR.value), every=_EVERY.value)
    return build.parts(config), [
        (step, first(s.params), None if s.critic_params is None else first(s.critic_params))
        for step, s in states]
  config = build.plain(_CONFIG.value)
  check.check(config)
  parts = build.parts(config)
  audit.check(parts)  # before the policy is trained
  params, info = actors.warm_start(config, [_SEED.value])
  if params is None:
    return parts, [(0, parts.policy.init(keys.stream(keys.root(_SEED.value), 'policy')), None)]
  print(f'policy: warm start, success {np.mean(info["clone_pass_rate"]):.2f}', flush=True)
  return parts, [(0, first(params), None)]


def _live():
  """Draws what a run logged."""
  from grpo.learn import sinks
  from grpo.study import live
  from grpo.study import plots

  if not _WORKDIR.value:
    raise cli.UsageError('--live needs --workdir, the folder of a run')
  workdir = pathlib.Path(_WORKDIR.value)
  path = workdir / 'audit.jsonl'
  if not path.is_file():
    raise cli.UsageError(f'{workdir} holds no audit.jsonl: train with --config.audit.every=N')
  records = sinks.read(path)
  if not records:
    raise cli.UsageError(f'{path} holds no audit yet')
  out = pathlib.Path(_OUT.value) if _OUT.value else workdir
  plots.save(live.figure(records), out / 'live.png')
  print(live.text(records))
  print(f'wrote live.png to {out}')
  return 0


def main(argv):
  del argv
  if _LIVE.value:
    return _live()
  horizons = _numbers(_HORIZONS, int, 1, 100_000)
  visibilities = _numbers(_VISIBILITIES, float, 0.0, 1.0)
  from scripts import device
  device.prepare()
  from grpo.learn import progress
  from grpo.study import audit
  from grpo.study import audit_report
  from grpo.study import frames
  from grpo.study import health
  from grpo.study import judge
  from grpo.study import plots

  workdir = pathlib.Path(_WORKDIR.value) if _WORKDIR.value else None
  out = pathlib.Path(_OUT.value) if _OUT.value else workdir or pathlib.Path('runs/audit')
  parts, policies = _policies()
  critic = parts.critic if policies[0][2] is not None else None
  grid = [(p, h, v) for p in policies for h in horizons for v in visibilities]
  auditor = audit.Auditor(parts, prompts=_PROMPTS.value, group=_GROUP.value, noise=_NOISE.value,
                          critic=critic, only=tuple(_ESTIMATORS.value),
                          rollouts=len(grid) * _BATCHES.value * _PROMPTS.value * _GROUP.value)
  rows, critics, each = [], [], 2 * _BATCHES.value
  with progress.Progress(each * len(grid), unit='batch') as line:
    for i, ((step, params, critic_params), turns, visibility) in enumerate(grid):
      knobs = {k: v for k, v in (('horizon', turns), ('visibility', visibility)) if v is not None}
      evidence = auditor.run(
          params, knobs, batches=_BATCHES.value, seed=_SEED.value, critic_params=critic_params,
          on_progress=lambda done, total, i=i: line.update(each * i + done))
      setting = {k: (parts.knobs | knobs)[k] for k in ('horizon', 'visibility')}
      rows += [dict(step=step) | setting | row for row in judge.rows(evidence)]
      critics += [dict(step=step) | setting | row for row in health.rows(evidence)]
  cells.write(out / 'audit.csv', frames.text(rows))
  plots.save(audit_report.figure(rows), out / 'audit.png')
  print(audit_report.text(rows))
  files = ['audit.csv', 'audit.png']
  if critics:
    cells.write(out / 'critic.csv', frames.text(critics))
    print(audit_report.critic_text(critics))
    files.append('critic.csv')
  print(f'wrote {", ".join(files)} to {out}')
  return 0


if __name__ == '__main__':
  cli.run(main)
