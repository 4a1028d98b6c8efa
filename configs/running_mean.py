"""REINFORCE against a running mean of earlier rewards: one sample, no critic, no group.

Williams 1992, Machine Learning 8: the baseline in the section on REINFORCE algorithms

  python -m scripts.train --config=configs/running_mean.py:smoke --workdir=runs/running_mean

The simplest memory: one number. The difficulty of a prompt stays in its advantage.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.memory.mean = base.slot('running_mean', decay=0.9)
  c.method.advantages = base.slot('minus_baseline')
  c.method.ratio = base.slot('none')
  c.method.surrogate = base.slot('reinforce')
  c.method.aggregate = base.slot('sequence_sum')
  c.train.minibatches = 1
  return c
