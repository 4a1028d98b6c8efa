"""MaxRL: the mean of the group is baseline and divisor: towards the log of the success rate.

arXiv:2602.02710

  python -m scripts.train --config=configs/maxrl.py:smoke --workdir=runs/maxrl

For rewards of 0 and 1. Hard prompts dominate: a lone success in a group of G weighs G - 1.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('mean_over_mean')
  c.method.aggregate = base.slot('token')
  return c
