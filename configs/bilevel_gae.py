"""Bi-level GAE (VAGEN): GAE over turns, and inside each turn over its tokens.

arXiv:2510.16907, section 3

  python -m scripts.train --config=configs/bilevel_gae.py:smoke --workdir=runs/bilevel_gae

Discounts of the released configs: 0.99 a turn, 1 a token; lambdas 1. Turns end where turns end,
also when they earn 0.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.chunk = base.slot('token')
  c.method.returns = base.slot(
      'bilevel_return', turn_lam=1.0, turn_discount=0.99, lam=1.0, discount=1.0)
  c.method.advantages = base.slot('critic_whiten')
  c.method.aggregate = base.slot('token')
  c.method.critic = base.value_critic(lam=1.0)
  return c
