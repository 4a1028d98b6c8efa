"""A*-PO: one sample, fitted to its advantage over the optimal value of the prompt.

arXiv:2505.20686

  python -m scripts.train --config=configs/a_star_po.py:smoke --workdir=runs/a_star_po

(tau log(policy / reference) - (R - V*))^2, with V* from 8 episodes of the frozen reference. The
paper plays those before training, once for each prompt of a fixed set; here prompts are new at
every step, so they are played, and counted, when a prompt comes up. The law of V* is the same.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.sample.reference = 8
  c.method.old = 'reference'
  c.method.advantages = base.slot('minus_optimal_value', beta=0.5)
  c.method.ratio = base.slot('product')
  c.method.surrogate = base.slot('squared', tau=1e-3)
  return c
