"""Lite PPO: mean of the group, std of the batch, token mean; nothing else is added to PPO.

arXiv:2508.08221

  python -m scripts.train --config=configs/lite_ppo.py:smoke --workdir=runs/lite_ppo

The scale of one prompt reaches all others, and no prompt is weighted by its own difficulty.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('group_mean_batch_std', eps=1e-4)
  c.method.aggregate = base.slot('token')
  return c
