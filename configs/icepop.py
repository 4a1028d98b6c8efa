"""IcePop: the clip of GRPO, and weight 0 where anchor and sampler differ too much.

arXiv:2510.18855

  python -m scripts.train --config=configs/icepop.py:smoke --workdir=runs/icepop

Acts where the two differ: --config.sample.lag=4. GLM-5 uses [1/2, 2]; level=sequence masks rows.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.old = 'recomputed'
  c.method.correction.weight = base.slot('icepop', low=0.5, high=5.0)
  return c
