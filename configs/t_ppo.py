"""T-PPO: extended GAE for episodes that a limit cut, a critic that learns from finished ones only.

arXiv:2506.15050, section 3

  python -m scripts.train --config=configs/t_ppo.py:smoke --workdir=runs/t_ppo

The value after the last token of a cut episode is taken to be that before it. Where nothing is cut
it equals VC-PPO without warm-up. The paper resumes cut answers in a later step; here they are over.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.chunk = base.slot('token')
  c.method.returns = base.slot('lambda_return', lam=0.95, discount=1.0, bootstrap='repeat')
  c.method.advantages = base.slot('critic_whiten')
  c.method.aggregate = base.slot('token')
  c.method.critic = base.value_critic(lam=1.0, rows='finished')
  return c
