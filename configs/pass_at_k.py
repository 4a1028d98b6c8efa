"""GRPO for pass@k: the best of the group gets its lead over the second, the others nothing.

No paper: verl's grpo_passk; the equation is that of best_of_group in
grpo/objective/baselines.py, first section

  python -m scripts.train --config=configs/pass_at_k.py:smoke --workdir=runs/pass_at_k

Two equal best samples get 0: the group has passed, and nothing more is to be won.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.advantages = base.slot('best_of_group')
  return c
