"""VC-PPO: value pretraining, and a lambda for the policy apart from that of the critic.

arXiv:2503.01491, section 4

  python -m scripts.train --config=configs/vc_ppo.py:smoke --workdir=runs/vc_ppo

PPO with two changes: the critic fits Monte-Carlo returns (lam 1), first alone for `warmup` steps.
Expect the explained variance to rise before the policy moves, and early turns to get credit.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.chunk = base.slot('token')
  c.method.returns = base.slot('lambda_return', lam=0.95, discount=1.0)
  c.method.advantages = base.slot('critic_whiten')
  c.method.aggregate = base.slot('token')
  c.method.critic = base.value_critic(lam=1.0, warmup=base.pick(c, smoke=1, small=10, full=50))
  return c
