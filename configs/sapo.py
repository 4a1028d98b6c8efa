"""SAPO: a sigmoid gate in place of the clip, sharper for negative advantages.

arXiv:2511.20347

  python -m scripts.train --config=configs/sapo.py:smoke --workdir=runs/sapo

No token loses its gradient at once: its weight fades with the distance of the ratio from 1.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.surrogate = base.slot('sapo', positive=1.0, negative=1.05)
  return c
