"""GRPO with masked importance sampling of whole rows, for data of an older or different sampler.

arXiv:2510.18855 for masking; the level and the bound are the defaults of TRL

  python -m scripts.train --config=configs/grpo_mis.py:smoke --workdir=runs/grpo_mis

A row whose product of ratios is above 3 gets weight 0, any other that product. Acts where sampler
and anchor differ: --config.sample.lag=4. level=geometric takes the mean over tokens, not the sum.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.old = 'recomputed'
  c.method.correction.weight = base.slot('icepop', low=0.0, high=3.0, level='sequence')
  return c
