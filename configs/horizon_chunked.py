"""Horizon-chunked returns: credit to blocks of H tokens, n blocks ahead, then a bootstrap.

No paper: the equation is that of look_ahead in grpo/objective/returns.py, first section

  python -m scripts.train --config=configs/horizon_chunked.py:smoke --workdir=runs/horizon_chunked

chunk: fixed, turn or turns; n: blocks of look-ahead, None for all; bootstrap: none or group. Turns
to the end: configs/horizon_chunked_turn.py. With a critic: configs/horizon_chunked_critic.py.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('fixed', length=4)
  c.method.returns = base.slot('look_ahead', n=1, discount=1.0, bootstrap='group')
  return c
