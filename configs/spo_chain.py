"""SPO, chain form: segments of some turns, valued by fresh continuations from their boundaries.

arXiv:2505.23564, section 3

  python -m scripts.train --config=configs/spo_chain.py:smoke --workdir=runs/spo_chain

chunk.length and branch.every: turns of a segment. Boundaries are evenly spaced; the paper puts them
where unlikely tokens are, and trains on those only, by numbers that could not be checked.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turns', length=2)
  c.method.branch = base.slot('monte_carlo', every=2,
                              samples=base.pick(c, smoke=1, small=3, full=9))
  c.method.returns = base.slot('lambda_return', lam=0.0, discount=1.0, bootstrap='none')
  c.method.advantages = base.slot('critic')
  c.method.aggregate = base.slot('token')
  return c
