"""DAPO: clip-higher, dynamic sampling, token mean, soft punishment of overlong answers.

arXiv:2503.14476, section 3

  python -m scripts.train --config=configs/dapo.py:smoke --workdir=runs/dapo

Twice as many groups are played as are trained on, in one go; the paper goes on until the batch is
full. Rewards are doubled: its +1 and -1 are 2 and 0 up to a shift, which the group takes away.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.sample.over = 2
  c.method.filter.informative = base.slot('informative', by='success')
  c.method.shape.correct = base.slot('scale', factor=2.0)
  c.method.shape.overlong = base.slot('overlong')
  c.method.surrogate = base.slot('ppo_clip', low=0.2, high=0.28)
  c.method.aggregate = base.slot('token')
  return c
