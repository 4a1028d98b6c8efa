"""Tree-GRPO: z-scores among the leaves of a tree, plus those among all leaves of the prompt.

arXiv:2509.21240, section 3

  python -m scripts.train --config=configs/tree_grpo.py:smoke --workdir=runs/tree_grpo

trees, width and every: how a group is made. Forks are at fixed turns; the paper draws the nodes to
expand. Add method.kl and method.kl_coef for its KL term.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turns', length=2)
  c.method.branch = base.slot('tree', trees=2, width=2, every=2)
  c.method.advantages = base.slot('tree_grpo')
  return c
