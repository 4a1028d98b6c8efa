"""Decoupled PPO: the clip around recomputed log-probs, a weight for what sampled.

arXiv:2505.24298; arXiv:2110.00641

  python -m scripts.train --config=configs/decoupled_ppo.py:smoke --workdir=runs/decoupled_ppo

For asynchronous sampling: --config.sample.lag=4. Differs from configs/grpo_tis.py in the divisor.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.old = 'recomputed'
  c.method.correction.weight = base.slot('tis', cap=2.0)
  c.method.aggregate = base.slot('token')
  return c
