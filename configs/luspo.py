"""LUSPO: GSPO with the loss of a sequence multiplied by its length.

arXiv:2602.05261

  python -m scripts.train --config=configs/luspo.py:smoke --workdir=runs/luspo

Summing the same ratio over the tokens of a row is that product; the range is wider than of GSPO.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.ratio = base.slot('sequence')
  c.method.surrogate = base.slot('ppo_clip', low=2e-3, high=2.5e-3)
  c.method.aggregate = base.slot('sequence_sum')
  return c
