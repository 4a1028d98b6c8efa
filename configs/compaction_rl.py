"""CompactionRL: credit across context windows, cross-trajectory GAE.

arXiv:2607.05378, section 3

  python -m scripts.train --config=configs/compaction_rl.py:smoke --workdir=runs/compaction_rl

length: what the adaptive lambda counts, rollout or segment; the paper does not say. Episodes of
several windows are the point: add --config.task.horizon=32, twice window.turns, and as in the paper
--config.window.summary=4 --config.window.carry=2 --config.window.compactions=3.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.chunk = base.slot('token')
  c.method.returns = base.slot(
      'adaptive_cross_segment_return', alpha=1.5, length='rollout', discount=1.0)
  c.method.advantages = base.slot('critic')
  c.method.aggregate = base.slot('token')
  c.method.critic = base.value_critic(
      lam=1.0, updates=2, warmup=base.pick(c, smoke=1, small=10, full=50))
  return c
