"""Half a group, half a critic: the mean of the other samples and the value, weighed.

No paper: the equation is that of mixed_baseline in grpo/objective/agents.py; this section is all

  python -m scripts.train --config=configs/mixed_baseline.py:smoke --workdir=runs/mixed_baseline

weight: 1 is leave-one-out by turn, 0 is a critic alone. A sweep over it asks what a critic adds.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.returns = base.slot('reward_to_go', discount=1.0)
  c.method.advantages = base.slot('mixed_baseline', weight=0.5)
  c.method.critic = base.value_critic(lam=1.0)
  return c
