"""CISPO: the importance weight is clipped, the gradient of a token never vanishes.

arXiv:2506.13585, section 3

  python -m scripts.train --config=configs/cispo.py:smoke --workdir=runs/cispo

low=1.0 leaves the lower side open, as the paper does; the weight is cut at 1 + high.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.surrogate = base.slot('cispo', low=1.0, high=0.28)
  c.method.aggregate = base.slot('token')
  return c
