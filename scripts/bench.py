"""Times sampling and training against the limits of this machine, measured in the same process.

  python -m scripts.bench --case=small
  python -m scripts.bench --case=all --steps=8
  python -m scripts.bench --case=small --change=prompts=4,completion=256
  python -m scripts.bench --case=tasks
  python -m scripts.bench --law=group

One line of JSON a case. A random-weight decoder samples a group for each random prompt and does one
update; the reward is the share of one token. Keys of a line:

  step_s              the fused program: sample, score, credit, update, metrics
  generate_s, score_s sampling and reference scoring, compiled alone; train_s is what remains
  share_*             least possible time / time: FLOPs with each prompt read once a group, at the
                      rate of a 1024-cubed product here; for sampling also bytes at its bandwidth
  n_clean, foreign    steps that other processes left alone, and their share of the machine

A law varies one thing and says how the time of a step grows; `limit` is what is asked for. The case
`overhead` compares the trainer (logging on, saving off) with its own compiled program. The case
`tasks` has a line for each task: steps a second of uniform tokens, without a model. The case
`plain` compares the composed step of configs/grpo.py with a GRPO step written by hand, on the sizes
of `small`: `ratio` is to be at most 1.03, by medians of --steps alternating rounds. Where others
compute (`foreign`) read `ratio_cpu`, of processor time, and `ratio_min`, and give it one core:
taskset -c 0 python -m scripts.bench --case=plain
"""

import dataclasses
import importlib
import json
import subprocess
import sys

from absl import flags

from scripts import cli

_CASE = flags.DEFINE_string('case', 'small', 'One case, or all: each in a process of its own.')
_LAW = flags.DEFINE_string('law', None, 'One law, or all, instead of a case.')
_STEPS = flags.DEFINE_integer('steps', 6, 'Timed steps, after a first one.', lower_bound=1)
_CHANGE = flags.DEFINE_list('change', [], 'Sizes to change, such as prompts=4,completion=256.')
_CACHE = flags.DEFINE_bool(
    'cache', False, 'Use the compilation cache of the other commands: times of a warm start.')
_JSON = flags.DEFINE_string('json', None, 'Also append the lines to this file.')


def _changed(work, changes):
  """`work` with the fields of name=value pairs replaced."""
  fields = {f.name: f.default for f in dataclasses.fields(work)}
  values = {}
  for pair in changes:
    name, _, text = pair.partition('=')
    if name not in fields:
      raise cli.unknown('size', name, fields)
    default = fields[name]
    try:
      values[name] = (text if isinstance(default, str) else
                      {'true': True, 'false': False}[text.lower()] if isinstance(default, bool)
                      else int(text))
    except (KeyError, ValueError) as error:
      raise cli.UsageError(f'--change={pair}: {name} is a {type(default).__name__}') from error
  return dataclasses.replace(work, **values)


def _emit(line):
  """Prints one line of JSON, and appends it to the file of --json."""
  def short(x):
    if isinstance(x, dict):
      return {k: short(v) for k, v in x.items()}
    if isinstance(x, list):
      return [short(v) for v in x]
    return float(f'{x:.4g}') if isinstance(x, float) else x
  text = json.dumps(short(line))
  print(text, flush=True)
  if _JSON.value:
    with open(_JSON.value, 'a', encoding='utf-8') as file:
      file.write(text + '\n')


def _run_law(name, config):
  """Measures the points of a law in turn, and says by how much each costs more than the last."""
  from grpo.study import laws
  from grpo.study import speed
  law, points, rates = laws.LAWS[name], [], speed.limits()
  for i, (value, work) in enumerate(law.points, 1):
    print(f'law {name}: point {i} of {len(law.points)}, {law.varied} = {value}', file=sys.stderr,
          flush=True)
    out = speed.measure(config, _changed(work, _CHANGE.value), _STEPS.value, rates, law.alone)
    points.append(out)
    _emit(dict(law=name, varied=law.varied, value=value) | out)
  _emit(dict(law=name, varied=law.varied) | laws.verdict(law, points))


def main(argv):
  del argv
  if _CACHE.value:
    from scripts import device
    device.prepare()
  from configs import base
  from grpo.study import laws
  from grpo.study import play
  from grpo.study import speed
  from grpo.study import work as works
  cases = [*works.CASES, 'overhead', 'plain', 'tasks']
  known, chosen = (list(laws.LAWS), _LAW.value) if _LAW.value else (cases, _CASE.value)
  if chosen == 'all':
    # A peak of memory and a time from the start belong to one process.
    kind = 'law' if _LAW.value else 'case'
    rest = [f'--steps={_STEPS.value}', f'--change={",".join(_CHANGE.value)}',
            f'--cache={_CACHE.value}', *([f'--json={_JSON.value}'] if _JSON.value else [])]
    return max(subprocess.run([sys.executable, '-m', 'scripts.bench', f'--{kind}={name}', *rest],
                              check=False).returncode for name in known)
  if chosen not in known:
    raise cli.unknown('law' if _LAW.value else 'case', chosen, [*known, 'all'])
  if chosen == 'overhead' and not _LAW.value:
    config = base.get_config('small,arithmetic')
    config.evaluate.prompts, config.clone.steps = 1, 0
    _emit(dict(case=chosen) | speed.overhead(config, max(3, _STEPS.value)))
    return 0
  if chosen == 'tasks' and not _LAW.value:
    for name, sizes in speed.TASKS:
      task = importlib.import_module(f'grpo.tasks.{name}').make(**sizes)
      _emit(dict(case=chosen, task=name, sizes=sizes) | play.rate(task, 1024, _STEPS.value))
    return 0
  config = base.get_config('smoke')
  if _LAW.value:
    return _run_law(chosen, config)
  if chosen == 'plain':
    from configs import grpo as variant
    from grpo.study import plain
    work = _changed(works.CASES['small'], _CHANGE.value)
    made = speed.parts(variant.get_config('smoke'), work)
    _emit(dict(case=chosen, changed=list(_CHANGE.value)) | plain.compare(made, _STEPS.value))
    return 0
  work = _changed(works.CASES[chosen], _CHANGE.value)
  out = speed.measure(config, work, _STEPS.value)
  _emit(dict(case=chosen, changed=list(_CHANGE.value)) | out)


if __name__ == '__main__':
  cli.run(main)
