"""GRPO on the prompts that are solved sometimes: groups outside 0.2 to 0.8 are dropped.

arXiv:2503.14476, section 3.2 for the idea of a filter; the band is a choice

  python -m scripts.train --config=configs/curriculum.py:smoke --workdir=runs/curriculum

Nothing is sampled in place of a dropped group, so this changes the divisor and saves no rollouts.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.filter.rate = base.slot('pass_rate', low=0.2, high=0.8)
  c.method.aggregate = base.slot('token')
  return c
