"""GRPO where rows whose sampler and anchor differ are rejected: token, row or geometric.

arXiv:2512.23075

  python -m scripts.train --config=configs/grpo_reject.py:smoke --workdir=runs/grpo_reject

Drops rows by their worst token (level=max); kind=k1 with level=mean is the geometric filter. The
bound is a choice. Acts with --config.sample.lag=4.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.old = 'recomputed'
  c.method.correction.reject = base.slot('reject', kind='k3', level='max', high=0.05)
  return c
