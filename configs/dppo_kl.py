"""DPPO, binary KL: a token is dropped once the KL of it against the rest passes 0.05 nats.

arXiv:2602.04879

  python -m scripts.train --config=configs/dppo_kl.py:smoke --workdir=runs/dppo_kl

A token that moves back towards the old policy is always kept. The bound is that of public scripts.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.surrogate = base.slot('dppo_kl', bound=0.05)
  c.method.aggregate = base.slot('token')
  return c
