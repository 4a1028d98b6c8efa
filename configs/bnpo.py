"""BNPO: divides by a Beta law fitted to the success rates of the batch, not by the group std.

arXiv:2506.02864

  python -m scripts.train --config=configs/bnpo.py:smoke --workdir=runs/bnpo

Rewards must lie in [0, 1]. The aggregate that TRL calls bnpo is another thing.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('beta_density')
  return c
