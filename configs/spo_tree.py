"""SPO, tree form: the value of a node of a tree of segments, minus that of its parent.

arXiv:2505.23564, section 3

  python -m scripts.train --config=configs/spo_tree.py:smoke --workdir=runs/spo_tree

The root is the prompt; nodes split in two every `every` turns. Without the mask of likely tokens
and the siblings' std, which could not be checked.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turns', length=2)
  c.method.branch = base.slot('tree', trees=2, width=2, every=2)
  c.method.advantages = base.slot('spo_tree')
  return c
