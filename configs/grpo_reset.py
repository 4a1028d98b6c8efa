"""GRPO with a KL to a reference that is replaced by the policy from time to time.

arXiv:2404.09656 (TR-DPO, hard update); arXiv:2402.03300 for the KL

  python -m scripts.train --config=configs/grpo_reset.py:smoke --workdir=runs/grpo_reset

The KL then bounds the speed of the policy and not how far it gets. The optimiser is not reset.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.kl = base.slot('k3')
  c.method.kl_coef = 0.04
  c.method.reference_every = base.pick(c, smoke=5, small=20, full=200)
  return c
