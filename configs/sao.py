"""SAO: single rollouts, DIS mask on the sampler's log-probs, a critic trained twice a step.

arXiv:2607.07508, section 3

  python -m scripts.train --config=configs/sao.py:smoke --workdir=runs/sao

Not given by the paper, so fields here: discount, what l counts (trained tokens), the divisor.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.chunk = base.slot('token')
  c.method.returns = base.slot('adaptive_lambda_return', alpha=1.5, discount=1.0)
  c.method.advantages = base.slot('critic')
  c.method.surrogate = base.slot('dis', low=0.3, high=5.0)
  c.method.aggregate = base.slot('token')
  c.method.critic = base.value_critic(
      lam=1.0, updates=2, freeze='attention', warmup=base.pick(c, smoke=1, small=10, full=10))
  return c
