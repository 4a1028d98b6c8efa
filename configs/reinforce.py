"""REINFORCE: every token of an episode carries the reward of the episode, no baseline.

Williams 1992, Machine Learning 8, section 3

  python -m scripts.train --config=configs/reinforce.py:smoke --workdir=runs/reinforce

One prompt, one sample; a single on-policy update a step, since nothing corrects a ratio.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.advantages = base.slot('raw')
  c.method.ratio = base.slot('none')
  c.method.surrogate = base.slot('reinforce')
  c.method.aggregate = base.slot('sequence_sum')
  c.train.minibatches = 1
  return c
