"""IGPO: a turn is paid by how much likelier it made the right answer, the last one by the outcome.

arXiv:2510.14967, section 3

  python -m scripts.train --config=configs/igpo.py:smoke,triage --workdir=runs/igpo

For tasks whose answer is one token and stays right, triage and meeting; others are refused. Gains
and outcomes of a group are normalised together; joint='separate' takes them apart.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.returns = base.slot('information_gain')
  c.method.advantages = base.slot('igpo', joint='joint', discount=1.0)
  return c
