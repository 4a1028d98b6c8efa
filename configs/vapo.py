"""VAPO: PPO with length-adaptive lambda, Monte-Carlo critic, clip-higher and an NLL term.

arXiv:2504.05118, section 4

  python -m scripts.train --config=configs/vapo.py:smoke --workdir=runs/vapo

Keeps the groups of the base config: the paper samples 16 answers of each prompt.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('token')
  c.method.returns = base.slot('adaptive_lambda_return', alpha=0.05, discount=1.0)
  c.method.advantages = base.slot('critic_whiten')
  c.method.surrogate = base.slot('ppo_clip', low=0.2, high=0.28)
  c.method.aggregate = base.slot('token')
  c.method.auxiliary.positive_nll = base.slot('positive_nll', coef=0.1)
  c.method.critic = base.value_critic(lam=1.0, warmup=base.pick(c, smoke=1, small=10, full=50))
  return c
