"""GMPO: the geometric mean of token ratios, each clipped in log space before the mean.

arXiv:2507.20673

  python -m scripts.train --config=configs/gmpo.py:smoke --workdir=runs/gmpo

The band is one of log-ratios, 0.4 to each side. Differs from configs/grpo.py in the surrogate.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.surrogate = base.slot('gmpo', low=0.4, high=0.4)
  return c
