"""Turn-PPO: GAE over turns; an action is a whole turn and its value that of its first token.

arXiv:2512.17008, section 3

  python -m scripts.train --config=configs/turn_ppo.py:smoke --workdir=runs/turn_ppo

Discount and lambda count turns. Ratio and clip stay those of tokens. Expect PPO's curve on the
default task, whose turns are one token; they part with --config=configs/turn_ppo.py:small,programs.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.chunk = base.slot('turn')
  c.method.returns = base.slot('lambda_return', lam=0.9, discount=1.0)
  c.method.advantages = base.slot('critic_whiten')
  c.method.aggregate = base.slot('token')
  c.method.critic = base.value_critic(lam=0.9)
  return c
