"""DAPO: clip-higher, token mean, flat groups dropped, truncated answers punished softly.

arXiv:2503.14476, section 3

  python -m scripts.train --config=configs/dapo.py:smoke --workdir=runs/dapo

Dropped groups are not refilled here; soft overlong punishment is the slot shape: overlong.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.filter.informative = base.slot('informative')
  c.method.surrogate = base.slot('ppo_clip', low=0.2, high=0.28)
  c.method.aggregate = base.slot('token')
  return c
