"""GRPO that drops bad rows which the policy has left, with an unbiased KL: DeepSeek-V3.2.

arXiv:2512.02556, section 3.1

  python -m scripts.train --config=configs/grpo_opsm.py:smoke --workdir=runs/grpo_opsm

Neither the threshold nor the coefficient is published; 0.5 is what TRL suggests.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.gate.off_policy = base.slot('off_policy_sequence', delta=0.5)
  c.method.kl = base.slot('importance_weighted_k3')
  c.method.kl_coef = 0.001
  return c
