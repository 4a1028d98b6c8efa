"""MT-GRPO: turn rewards and the outcome, normalised apart and added.

arXiv:2505.11821, section 3

  python -m scripts.train --config=configs/mt_grpo.py:smoke --workdir=runs/mt_grpo

The turn reward is the change of the task's potential over the turn. The paper has two turns, a tool
call and an answer; more turns add up. coef: weight of turn rewards; 0 is GRPO.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.returns = base.slot('potential_look_ahead', n=0, discount=1.0)
  c.method.advantages = base.slot('mt_grpo', coef=1.0)
  c.method.aggregate = base.slot('token')
  return c
