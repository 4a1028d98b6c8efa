"""SPO, single-stream: one sample, a tracked success rate of the prompt as its baseline.

arXiv:2509.13232

  python -m scripts.train --config=configs/spo_single.py:smoke --workdir=runs/spo_single

The paper's sampling weight of a prompt is a weight of the loss here, and no offline samples start
the tracker. Rewards must lie in [0, 1].
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.memory.tracker = base.slot('prompt_tracker')
  c.method.advantages = base.slot('baseline_zscore')
  c.method.weigh.prompts = base.slot('uncertainty', by='baseline')
  c.method.surrogate = base.slot('ppo_clip', low=0.2, high=0.28)
  c.method.aggregate = base.slot('token')
  return c
