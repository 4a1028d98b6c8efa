"""lambda-GRPO: a token shared by n samples of the group counts 1 / n for each of them.

arXiv:2509.21154

  python -m scripts.train --config=configs/prefix_lambda.py:smoke --workdir=runs/prefix_lambda

The divisor keeps counting whole tokens. Not the learnable lambda of arXiv:2510.06870.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.weigh.prefix = base.slot('prefix_share')
  c.method.aggregate = base.slot('token')
  return c
