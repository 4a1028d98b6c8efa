"""Dr. GRPO: group mean only and a constant divisor, so neither length nor spread weighs.

arXiv:2503.20783, section 3

  python -m scripts.train --config=configs/dr_grpo.py:smoke --workdir=runs/dr_grpo

The divisor is the number of rows times the largest number of trained tokens of an episode.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('group_center')
  c.method.aggregate = base.slot('constant_length')
  return c
