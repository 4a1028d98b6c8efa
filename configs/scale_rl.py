"""ScaleRL: CISPO with a cap of 5, mean of the group and std of the batch.

arXiv:2510.13786

  python -m scripts.train --config=configs/scale_rl.py:smoke --workdir=runs/scale_rl

The slots of its recipe alone: the loss, the scale and the divisor.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('group_mean_batch_std', eps=1e-4)
  c.method.surrogate = base.slot('cispo', low=1.0, high=4.0)
  c.method.aggregate = base.slot('token')
  return c
