"""OPO: exactly on policy, against the mean of the group weighted by length.

arXiv:2505.23585

  python -m scripts.train --config=configs/opo.py:smoke --workdir=runs/opo

No std, no KL, one update a batch. With answers of one length it is the mean of the group.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('length_weighted')
  c.method.ratio = base.slot('none')
  c.method.surrogate = base.slot('reinforce')
  c.method.aggregate = base.slot('token')
  c.train.minibatches = 1
  return c
