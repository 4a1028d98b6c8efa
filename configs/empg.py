"""EMPG: group advantages, gated by the policy's entropy, plus a bonus for clear next turns.

arXiv:2509.09265, section 3

  python -m scripts.train --config=configs/empg.py:smoke --workdir=runs/empg

k, k_next and zeta are ours: those of the paper could not be checked. Costs a forward pass for the
entropies. Expect sure wrong turns to be punished harder than with GRPO.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.advantages = base.slot('empg', k=1.0, k_next=1.0, zeta=0.1, over='sequence')
  return c
