"""GRPO with the KL in the reward and its coefficient driven to a target.

arXiv:1909.08593, section 2.2; arXiv:2402.03300

  python -m scripts.train --config=configs/grpo_adaptive_kl.py:smoke --workdir=runs/grpo_adaptive_kl

The target is in nats an episode; the coefficient moves by at most 20% times episodes / horizon.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.shape.kl = base.slot('kl_in_reward', coef=0.05)
  c.method.memory.kl = base.slot('adaptive_kl', target=0.5, horizon=10_000)
  return c
