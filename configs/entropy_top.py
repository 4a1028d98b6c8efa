"""80/20: the policy gradient of the fifth of tokens with the largest entropy alone.

arXiv:2506.01939

  python -m scripts.train --config=configs/entropy_top.py:smoke --workdir=runs/entropy_top

The quantile is over all tokens of an optimiser batch; the divisor counts every token.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.gate.entropy = base.slot('top_entropy', share=0.2)
  c.method.surrogate = base.slot('ppo_clip', low=0.2, high=0.28)
  c.method.aggregate = base.slot('token')
  return c
