"""INTELLECT-2: GRPO with a second cap, so that negative advantages are bounded as well.

arXiv:2505.07291

  python -m scripts.train --config=configs/intellect2.py:smoke --workdir=runs/intellect2

The cap of 4 acts where A < 0 and the ratio is above 4; a small KL term stays on.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.surrogate = base.slot('ppo_clip', low=0.2, high=0.2, dual=4.0)
  c.method.aggregate = base.slot('token')
  c.method.kl = base.slot('k3')
  c.method.kl_coef = 0.001
  return c
