"""DRO: plain policy gradient and the square of the log-ratio of each token.

arXiv:2405.19107

  python -m scripts.train --config=configs/dro.py:smoke --workdir=runs/dro

The value of the paper is the mean of the group here; beta is a choice. No clip.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('group_center')
  c.method.surrogate = base.slot('dro', beta=0.1)
  c.method.aggregate = base.slot('token')
  return c
