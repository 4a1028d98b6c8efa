"""GRPO with the mask of SAO: tokens whose ratio leaves a wide band carry no gradient.

arXiv:2607.07508 (mask), arXiv:2402.03300 (the rest)

  python -m scripts.train --config=configs/grpo_dis.py:smoke --workdir=runs/grpo_dis

Differs from configs/grpo.py in the surrogate alone: the honest partner of configs/sao.py.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.surrogate = base.slot('dis', low=0.3, high=5.0)
  return c
