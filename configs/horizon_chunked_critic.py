"""Horizon-chunked returns with a critic's value where the look-ahead ends.

No paper: the equation is that of look_ahead in grpo/objective/returns.py, first section

  python -m scripts.train --config=configs/horizon_chunked_critic.py:smoke --workdir=runs/critic

The baseline is the group's, the future beyond n blocks the critic's. chunk: fixed, turn or turns.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('fixed', length=4)
  c.method.returns = base.slot('look_ahead', n=1, discount=1.0, bootstrap='critic')
  c.method.critic = base.value_critic(lam=1.0)
  return c
