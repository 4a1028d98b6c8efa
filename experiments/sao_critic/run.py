"""The critics of experiments/sao_stability: what K, frozen attention and a mask do to them.

Nothing is trained here: the rows are read from the results of that experiment, whose cells log what
is asked (`sweep.OF_CRITIC`). Run that one first; size smoke reads what is there as well.
"""

import math

from experiments.sao_stability import sweep
from grpo.study import frames
from scripts import cli

SOURCE = cli.ROOT / 'experiments' / 'sao_stability' / 'curves.csv'
COLUMNS = ('critic/explained', 'grad_norm/value', 'ratio/mask_fraction')


def rows(size: str, progress) -> list[dict]:
  """One row for each arm, setting and seed: means over the log points of the second half.

  In the first half the line fills and critics warm up.
  """
  del size
  curves = [r for r in frames.read(SOURCE) if r['arm'] in sweep.CRITICS]
  last = max(r['step'] for r in curves)
  made, runs = [], frames.unique(curves, 'arm', 'setting', 'horizon', 'seed')
  for arm, setting, lag, seed in runs:
    mine = [r for r in curves if (r['arm'], r['setting'], r['seed']) == (arm, setting, seed)]
    half = [r for r in mine if r['step'] > last / 2]
    row = dict(arm=arm, setting=setting, lag=lag, seed=seed)
    for column in COLUMNS:
      known = [r[column] for r in half if not math.isnan(r[column])]
      row[column] = sum(known) / len(known) if known else math.nan
    made.append(row | dict(success_last=max(mine, key=lambda r: r['step'])['success']))
    progress(len(made), len(runs))
  return made
