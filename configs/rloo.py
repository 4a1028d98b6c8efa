"""RLOO: REINFORCE against the mean of the other samples of the group.

arXiv:2402.14740, section 3

  python -m scripts.train --config=configs/rloo.py:smoke --workdir=runs/rloo

The paper puts a KL penalty in the reward; add it with a labelled slot of method.shape.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('leave_one_out')
  c.method.ratio = base.slot('none')
  c.method.surrogate = base.slot('reinforce')
  c.method.aggregate = base.slot('sequence_sum')
  c.train.minibatches = 1
  return c
