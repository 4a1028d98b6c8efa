"""GRPO, outcome supervision: z-score in the group, clip, mean over tokens then sequences.

arXiv:2402.03300, section 4.1

  python -m scripts.train --config=configs/grpo.py:smoke --workdir=runs/grpo

The KL term of the paper is off, as in most later work: set method.kl and method.kl_coef.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  return c
