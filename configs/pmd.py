"""Policy mirror descent with the log-partition of the other samples as the baseline.

arXiv:2602.05933

  python -m scripts.train --config=configs/pmd.py:smoke --workdir=runs/pmd

tau is in units of reward per nat; at 0.01 the baseline is all but the best of the others.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('log_mean_exp', tau=0.01)
  c.method.ratio = base.slot('product')
  c.method.surrogate = base.slot('pmd', tau=0.01)
  return c
