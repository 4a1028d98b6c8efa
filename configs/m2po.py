"""M2PO: tokens are dropped until the second moment of the log-ratio is below 0.04; no clip.

arXiv:2510.01161

  python -m scripts.train --config=configs/m2po.py:smoke --workdir=runs/m2po

The log-ratio is that of anchor and sampler, as in public code: act on it with
--config.sample.lag=4.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.old = 'recomputed'
  c.method.correction.moment = base.slot('m2po', tau=0.04)
  c.method.surrogate = base.slot('importance')
  c.method.aggregate = base.slot('token')
  return c
