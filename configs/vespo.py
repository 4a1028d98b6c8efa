"""VESPO: a soft gamma-shaped weight of the ratio of the whole row, detached.

arXiv:2602.10693

  python -m scripts.train --config=configs/vespo.py:smoke --workdir=runs/vespo

The weight is 1 at ratio 1 and fades to both sides, with other numbers for each sign of A.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.ratio = base.slot('product')
  c.method.surrogate = base.slot('vespo')
  c.method.aggregate = base.slot('token')
  return c
