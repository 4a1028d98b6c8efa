"""Trains one variant: every seed in one program, with checkpoints that continue after a kill.

  python -m scripts.train --config=configs/grpo.py:smoke --workdir=runs/grpo
  python -m scripts.train --config=configs/sao.py:small --workdir=runs/sao --config.task.horizon=64
  python -m scripts.train --config=configs/ppo.py:small,arithmetic --workdir=runs/ppo --seeds=0,1,2
  python -m scripts.train --config=configs/grpo.py:small --workdir=runs/grpo --tensorboard
  python -m scripts.train --config=configs/grpo.py:small --workdir=runs/grpo --config.audit.every=40

The config argument is SIZE or SIZE,TASK: smoke, small or full; a task of configs/base.py. Any
field of configs/base.py can be set by --config.FIELD=VALUE. The same command continues a run that
was stopped; a folder that holds another config is refused. In the folder:

  config.json     every field, the seeds and the settings
  metrics.jsonl   one line per log point and seed
  audit.jsonl     with config.audit.every: how wrong credit is at those steps (task horizon), see
                  grpo/study/live.py; `python -m scripts.audit --workdir=FOLDER --live` draws it
  machine.jsonl   tokens and seconds a step, and memory, at each log point
  result.json     scores at all log points, tokens and FLOPs, once the run is complete
  checkpoints/    the last complete train states
"""

import os
import pathlib

from absl import flags

from scripts import cli

_CONFIG = cli.config_flag('configs/grpo.py:small')
_WORKDIR = cli.folder_flag('workdir', 'Folder of the run; made if missing.', required=True)
_SEEDS = flags.DEFINE_list('seeds', None, 'Seeds, such as 0,1,2; by default config.seed alone.')
_TENSORBOARD = flags.DEFINE_bool('tensorboard', False, 'Also write TensorBoard event files.')
_WANDB = flags.DEFINE_enum('wandb', 'disabled', ['disabled', 'offline', 'online'],
                           'Also log to Weights & Biases.')
_QUIET = flags.DEFINE_bool('quiet', False, 'No progress line.')


def _seeds(config):
  """Seeds of the command line, or that of the config."""
  if _SEEDS.value is None:
    return [config.seed]
  try:
    seeds = [int(s) for s in _SEEDS.value]
  except ValueError as error:
    raise cli.UsageError(f'--seeds={",".join(_SEEDS.value)}: seeds are integers') from error
  if not seeds or len(set(seeds)) != len(seeds):
    raise cli.UsageError(f'--seeds={",".join(_SEEDS.value)}: needs at least one, each once')
  return seeds


def _sinks(config, workdir):
  """Factories of the optional sinks: (step resumed from or None) -> sink."""
  from grpo.learn import sinks
  made = []
  if _TENSORBOARD.value:
    made.append(lambda step: sinks.TensorBoardSink(workdir / 'tensorboard', step))
  if _WANDB.value != 'disabled':
    made.append(lambda step: sinks.WandbSink(workdir / 'wandb', mode=_WANDB.value,
                                             config=config.to_dict()))
  return made


def main(argv):
  del argv
  if (pathlib.Path(_WORKDIR.value) / 'sweep.json').exists():
    raise cli.UsageError(f'--workdir={_WORKDIR.value} holds a sweep: choose another folder')
  from scripts import device  # sets up JAX before anything imports it
  device.prepare()
  from grpo.learn import loop
  from grpo.learn import metrics
  from grpo.learn import progress
  from grpo.learn import record
  from grpo.study import live

  config, workdir = _CONFIG.value, pathlib.Path(_WORKDIR.value)
  seeds = _seeds(config)
  audit = live.of(config, seeds)  # refuses before anything is computed
  if audit is not None and audit.note:
    print(f'audit: {audit.note}', flush=True)
  line = None if _QUIET.value else progress.Progress(config.steps)

  def on_progress(step, values):
    if line is not None:
      shown = ('success/evaluated', 'reward/episode', 'loss/policy')
      line.update(step, tokens=int(values['tokens/sampled']),
                  shown={k: values[k] for k in shown if k in values})

  try:
    out = loop.run(config, seeds=seeds, workdir=workdir, cache=workdir / 'cache',
                   sinks=_sinks(config, workdir), on_progress=on_progress, audit=audit,
                   on_stage=line.stage if line is not None else lambda text: None)
  except loop.Stopped as stopped:
    print(stopped)
    return 128 + stopped.signum
  except metrics.NonFinite as error:
    print(f'{error}: the last good state is the newest checkpoint of {workdir}')
    return 1
  finally:
    if line is not None:
      line.close()
  record.write_json(workdir / 'result.json', {
      k: v.tolist() if hasattr(v, 'tolist') else v for k, v in out.items()} | dict(seeds=seeds))
  last = ', '.join(f'{x:.3f}' for x in out['success'][-1])
  print(f'success at the last evaluation, seeds {",".join(map(str, seeds))}: {last}')
  print(f'wrote {workdir}{os.sep}result.json')
  return 0


if __name__ == '__main__':
  cli.run(main)
