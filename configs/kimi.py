"""Kimi k1.5: fits tau times the log-ratio of the row to its reward minus the mean of the group.

arXiv:2501.12599, section 2.3.2

  python -m scripts.train --config=configs/kimi.py:smoke --workdir=runs/kimi

No clip: the square is the trust region. tau is a choice, in units of reward per nat.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('group_center')
  c.method.ratio = base.slot('product')
  c.method.surrogate = base.slot('squared', tau=0.5)
  return c
