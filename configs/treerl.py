"""TreeRL: how much better a node of the search tree is than the root, and than its parent.

arXiv:2506.11902, section 3

  python -m scripts.train --config=configs/treerl.py:smoke --workdir=runs/treerl

power: exponent of the number of leaves that divides a shared node's advantage; 1/2 is published.
Forks are at fixed turns; the paper forks at the most uncertain tokens.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turns', length=2)
  c.method.branch = base.slot('tree', trees=2, width=2, every=2)
  c.method.advantages = base.slot('treerl')
  return c
