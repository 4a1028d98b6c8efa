"""Horizon-chunked returns: credit to blocks of H tokens, n blocks ahead, then a bootstrap.

No paper: the equation is that of look_ahead in grpo/objective/returns.py, first section

  python -m scripts.train --config=configs/horizon_chunked.py:smoke --workdir=runs/horizon_chunked

chunk: fixed or turn; n: blocks of look-ahead; bootstrap: none, group or critic.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('fixed', length=4)
  c.method.returns = base.slot('look_ahead', n=1, discount=1.0, bootstrap='group')
  return c
