"""ARPO: rollouts that branch; shared tokens get the mean advantage of their branches.

arXiv:2507.19849, section 3

  python -m scripts.train --config=configs/arpo.py:smoke --workdir=runs/arpo

The hard form; advantages group_zscore with the same branch is the soft one. Forks are at fixed
turns: the paper's entropy rule has constants that could not be checked.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turns', length=2)
  c.method.branch = base.slot('tree', trees=2, width=2, every=2)
  c.method.advantages = base.slot('shared_prefix')
  return c
