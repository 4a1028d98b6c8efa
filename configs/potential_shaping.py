"""Potential-based shaping: turns are paid for the potential they gain; the best policy stays.

Ng, Harada and Russell 1999, section 3: no arXiv

  python -m scripts.train --config=configs/potential_shaping.py:smoke --workdir=runs/potential

Return-to-go minus the potential of the turn's state, against the group at that turn. With whole
trajectories as chunks it changes nothing: all samples of a group start alike.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.returns = base.slot('potential_look_ahead', n=None, discount=1.0)
  return c
