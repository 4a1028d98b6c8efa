"""Horizon-chunked returns by turn: each turn gets what is earned from it on, against the group.

No paper: the equation is that of look_ahead in grpo/objective/returns.py, first section

  python -m scripts.train --config=configs/horizon_chunked_turn.py:smoke --workdir=runs/chunked_turn

n: turns of look-ahead; None, to the end, needs bootstrap none or critic. bootstrap: none, group or
critic (that one with a critic, see configs/horizon_chunked_critic.py).
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.returns = base.slot('look_ahead', n=None, discount=1.0, bootstrap='none')
  return c
