"""Evaluates the newest checkpoint of a run on held-out prompts, with repeats.

  python -m scripts.evaluate --workdir=runs/grpo
  python -m scripts.evaluate --workdir=runs/grpo --prompts=64 --repeats=16 --passes=1,8,16
  python -m scripts.evaluate --workdir=runs/grpo --greedy
  python -m scripts.evaluate --workdir=runs/grpo --top_p=0.9 --temperature=0.7
  python -m scripts.evaluate --workdir=runs/grpo --set=task.visibility=0.5

pass@k is the probability that one of k repeats is solved, pass^k that all are. Writes
evaluation.json into the folder: one entry per seed, and what was asked.
"""

import json
import math
import pathlib

from absl import flags
import numpy as np

from scripts import cli

_WORKDIR = cli.folder_flag('workdir', 'Folder of a run by scripts.train.', required=True)
_PROMPTS = flags.DEFINE_integer('prompts', 128, 'Held-out prompts.', lower_bound=1)
_REPEATS = flags.DEFINE_integer('repeats', 8, 'Episodes of each prompt.', lower_bound=1)
_PASSES = flags.DEFINE_list('passes', ['1', '8'], 'Values of k; each at most --repeats.')
_TEMPERATURE = flags.DEFINE_float('temperature', None, 'Default: that of training. Above 0.')
_TOP_K = flags.DEFINE_integer('top_k', None, 'Sample among the k likeliest tokens.', lower_bound=1)
_TOP_P = flags.DEFINE_float('top_p', None, 'Sample among the likeliest tokens of this total mass; '
                            'above 0, at most 1.')
_GREEDY = flags.DEFINE_bool('greedy', False, 'Take the likeliest token.')
_HELDOUT = flags.DEFINE_bool('heldout', True, 'Held-out prompts; --noheldout takes training ones.')
_SET = flags.DEFINE_multi_string('set', [], 'task.FIELD=NUMBER; changes a field of the task.')


def _overrides():
  """Dotted path -> number. Fields outside the task would not fit the weights, or change nothing."""
  out = {}
  for text in _SET.value:
    path, _, value = text.partition('=')
    try:
      number = json.loads(value)
    except (RecursionError, ValueError):
      number = None
    if type(number) not in (int, float) or not math.isfinite(number):
      raise cli.UsageError(f'--set={text}: needs task.FIELD=NUMBER, such as task.horizon=8')
    if not path.startswith('task.'):
      raise cli.UsageError(f'--set={text}: changes the task only; FIELD must start with task.')
    out[path] = number
  return out


def _check_range(flag, value, top):
  """Raises UsageError unless 0 < value <= top; NaN is not."""
  if value is not None and not (0 < value <= top and math.isfinite(value)):
    allowed = 'must be above 0' + (', finite' if math.isinf(top) else f', at most {top:g}')
    raise cli.UsageError(f'--{flag}={value:g}: {allowed}')


def main(argv):
  del argv
  _check_range('top_p', _TOP_P.value, 1.0)
  _check_range('temperature', _TEMPERATURE.value, math.inf)
  overrides = _overrides()
  from scripts import device
  device.prepare()
  from grpo.learn import record
  from grpo.study import evaluation

  choices = [x is not None and x is not False for x in (_TOP_K.value, _TOP_P.value, _GREEDY.value)]
  if sum(choices) > 1:
    raise cli.UsageError('choose one of --top_k, --top_p and --greedy')
  try:
    passes = [int(k) for k in _PASSES.value]
  except ValueError as error:
    raise cli.UsageError(f'--passes={",".join(_PASSES.value)}: integers') from error
  if _PASSES.present == 0:
    passes = [k for k in passes if k <= _REPEATS.value]
  folder = pathlib.Path(_WORKDIR.value)
  out = evaluation.run(
      folder, prompts=_PROMPTS.value, repeats=_REPEATS.value, passes=passes,
      temperature=_TEMPERATURE.value, top_k=_TOP_K.value, top_p=_TOP_P.value, greedy=_GREEDY.value,
      heldout=_HELDOUT.value, overrides=overrides)
  record.write_json(folder / 'evaluation.json', out)
  names = list(out['seeds'][0])
  print('  '.join(f'{n:>10}' for n in names))
  for row in out['seeds']:
    print('  '.join(f'{row[n]:10.3f}' if isinstance(row[n], float) else f'{row[n]:>10}'
                    for n in names))
  means = {n: float(np.mean([r[n] for r in out['seeds']])) for n in names if n != 'seed'}
  print(f'step {out["step"]}, mean over seeds: '
        + ', '.join(f'{n} {x:.3f}' for n, x in means.items()))
  return 0


if __name__ == '__main__':
  cli.run(main)
