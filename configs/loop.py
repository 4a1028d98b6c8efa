"""LOOP: PPO for agents with the mean of the other samples in place of a critic.

arXiv:2502.01600

  python -m scripts.train --config=configs/loop.py:smoke --workdir=runs/loop

Token ratios and token mean; the paper also compares ratios of turns and of rows.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('leave_one_out')
  c.method.aggregate = base.slot('token')
  return c
