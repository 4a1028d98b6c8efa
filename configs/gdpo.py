"""GDPO: every reward is normalised by itself in the group, then their sum in the batch.

arXiv:2601.05242

  python -m scripts.train --config=configs/gdpo.py:smoke --workdir=runs/gdpo

The second reward is the soft punishment of long answers; where all have one length it is flat and
counts 0.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.shape.length = base.slot('overlong', cache=4)
  c.method.advantages = base.slot('decoupled_zscore', weights=(1.0, 0.5))
  return c
