"""REINFORCE++: token returns with the KL in the reward, whitened over the batch, no group.

arXiv:2501.03262

  python -m scripts.train --config=configs/reinforce_pp.py:smoke --workdir=runs/reinforce_pp

Whitening is over tokens, so long episodes weigh more. The coefficient of the KL is a choice here.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.shape.kl = base.slot('kl_in_reward', coef=0.01)
  c.method.chunk = base.slot('token')
  c.method.returns = base.slot('reward_to_go')
  c.method.advantages = base.slot('batch_zscore')
  c.method.aggregate = base.slot('token')
  return c
