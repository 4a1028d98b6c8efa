"""StarPO-S: trains on the prompts whose rewards vary most, with clip-higher.

arXiv:2504.20073, section 3.3

  python -m scripts.train --config=configs/starpo_s.py:smoke --workdir=runs/starpo_s

fraction: share of prompts kept; the metric group/kept shows it. The form with group baselines; take
the filter to configs/ppo.py with groups for the form with a critic.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.filter.uncertain = base.slot('uncertain', fraction=0.25)
  c.method.surrogate = base.slot('ppo_clip', low=0.2, high=0.28)
  c.method.entropy_coef = 0.001
  c.method.aggregate = base.slot('token')
  return c
