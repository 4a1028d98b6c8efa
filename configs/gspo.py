"""GSPO: one length-normalised ratio a sequence, clipped as a whole.

arXiv:2507.18071, section 4

  python -m scripts.train --config=configs/gspo.py:smoke --workdir=runs/gspo

The range suits length-normalised ratios only; 0.2 would switch clipping off.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.ratio = base.slot('sequence')
  c.method.surrogate = base.slot('ppo_clip', low=3e-4, high=4e-4)
  return c
