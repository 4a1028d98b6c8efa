"""DAPO: clip-higher, token mean, flat groups dropped; its soft punishment of length is off.

arXiv:2503.14476, section 3

  python -m scripts.train --config=configs/dapo.py:smoke --workdir=runs/dapo

Dropped groups are not refilled here. The tasks limit answers to a few tokens; where length matters
add the punishment: a labelled slot of method.shape, overlong, whose `cache` is in tokens.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.filter.informative = base.slot('informative')
  c.method.surrogate = base.slot('ppo_clip', low=0.2, high=0.28)
  c.method.aggregate = base.slot('token')
  return c
