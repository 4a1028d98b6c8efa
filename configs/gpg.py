"""GPG: plain policy gradient with the mean of the group, scaled up for groups without spread.

arXiv:2504.02546

  python -m scripts.train --config=configs/gpg.py:smoke --workdir=runs/gpg

The paper samples again until half of the groups have spread; the factor alone is done here.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('informative_center')
  c.method.ratio = base.slot('none')
  c.method.surrogate = base.slot('reinforce')
  c.method.aggregate = base.slot('token')
  c.train.minibatches = 1
  return c
