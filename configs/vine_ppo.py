"""VinePPO: values are means over fresh continuations from every turn; no critic.

arXiv:2410.01679, section 4

  python -m scripts.train --config=configs/vine_ppo.py:smoke --workdir=runs/vine_ppo

samples: continuations from each turn of each sample (9 in the paper). They are not trained on, and
the counters of rollouts and tokens contain them: turns x samples as much work as PPO.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.branch = base.slot('monte_carlo', samples=base.pick(c, smoke=1, small=3, full=9))
  c.method.returns = base.slot('lambda_return', lam=0.0, discount=1.0, bootstrap='none')
  c.method.advantages = base.slot('critic')
  c.method.aggregate = base.slot('token')
  return c
