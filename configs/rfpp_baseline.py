"""REINFORCE++-baseline: minus the mean of the group, then whitened over the batch.

arXiv:2501.03262

  python -m scripts.train --config=configs/rfpp_baseline.py:smoke --workdir=runs/rfpp_baseline

The paper's KL term is off, as its form could not be confirmed: set method.kl and method.kl_coef.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('center_whiten')
  c.method.aggregate = base.slot('token')
  return c
