"""Counterfactual baseline: each turn against other turns played in its place.

arXiv:1705.08926 (COMA), eq. 4; arXiv:2603.06859 (C3) for language agents

  python -m scripts.train --config=configs/counterfactual.py:smoke --workdir=runs/counterfactual

What came before the turn is held fixed, the role that acts draws again, and all play on: the return
minus the mean of `samples` such returns, which leaves the own one out. The policy plays the only
role of the tasks here, so the baseline is the value of the state.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.branch = base.slot('monte_carlo', samples=base.pick(c, smoke=1, small=3, full=9))
  c.method.returns = base.slot('look_ahead', n=None, discount=1.0, bootstrap='none')
  c.method.advantages = base.slot('critic')
  c.method.aggregate = base.slot('token')
  return c
