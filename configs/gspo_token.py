"""GSPO-token: the ratio of the sequence, the gradient of the token, so credit may differ inside it.

arXiv:2507.18071, section 4

  python -m scripts.train --config=configs/gspo_token.py:smoke --workdir=runs/gspo_token

With one advantage a row this is configs/gspo.py; here each turn has its own, the reward to go.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.returns = base.slot('reward_to_go')
  c.method.ratio = base.slot('gspo_token')
  c.method.surrogate = base.slot('ppo_clip', low=3e-4, high=4e-4)
  return c
