"""DPPO, total variation: a token is dropped once its probability has moved by 0.15.

arXiv:2602.04879

  python -m scripts.train --config=configs/dppo_tv.py:smoke --workdir=runs/dppo_tv

The ratio of a rare token may be large while its probability hardly moves: it stays. The bound is
that of public scripts.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.surrogate = base.slot('dppo_tv', low=0.15, high=0.15)
  c.method.aggregate = base.slot('token')
  return c
