"""PPO: token GAE that skips observations, whitened advantages, clip, one sample a prompt.

arXiv:1707.06347; arXiv:1506.02438

  python -m scripts.train --config=configs/ppo.py:smoke --workdir=runs/ppo

The critic starts from the weights of the policy.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.chunk = base.slot('token')
  c.method.returns = base.slot('lambda_return', lam=0.95, discount=1.0)
  c.method.advantages = base.slot('critic_whiten')
  c.method.aggregate = base.slot('token')
  c.method.critic = base.value_critic(lam=0.95)
  return c
