"""HGPO: step advantages over a hierarchy of groups that share ever longer histories.

Published recipe of HGPO (ICLR 2026) for verl-agent; the idea of arXiv:2505.10978 with depth

  python -m scripts.train --config=configs/hgpo.py:smoke --workdir=runs/hgpo

depth: states of history beyond the present one; 0 is the step part of GiGPO. alpha: weight of long
histories. normalise: mean or mean_std.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.returns = base.slot('reward_to_go', discount=0.95)
  c.method.advantages = base.slot('hgpo', depth=2, alpha=1.0, normalise='mean_std')
  return c
