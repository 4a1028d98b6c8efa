"""GRPO with process rewards: turns are normalised together, a turn gets the later ones too.

arXiv:2402.03300, section 4.1.3

  python -m scripts.train --config=configs/grpo_process.py:smoke --workdir=runs/grpo_process

A turn's own reward stands for the step reward of the paper's reward model; normalise, then sum.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.returns = base.slot('look_ahead', n=0)
  c.method.advantages = base.slot('process_zscore')
  return c
