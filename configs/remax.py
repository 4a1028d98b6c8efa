"""ReMax: REINFORCE against the reward of a greedy answer to the same prompt.

arXiv:2310.10505

  python -m scripts.train --config=configs/remax.py:smoke --workdir=runs/remax

One sample and one greedy episode a prompt, so twice the rollouts are counted. The paper puts a KL
penalty in the reward; add it with a labelled slot of method.shape.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.sample.greedy = 1
  c.method.advantages = base.slot('minus_baseline')
  c.method.ratio = base.slot('none')
  c.method.surrogate = base.slot('reinforce')
  c.method.aggregate = base.slot('sequence_sum')
  c.train.minibatches = 1
  return c
