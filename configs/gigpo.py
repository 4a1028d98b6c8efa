"""GiGPO: an episode advantage, plus a step advantage among steps that start in the same state.

arXiv:2505.10978, section 4

  python -m scripts.train --config=configs/gigpo.py:smoke --workdir=runs/gigpo

normalise: mean (the default of the code) or mean_std. Samples of a group should meet in a state
again; expect GRPO's curve where they never do.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('turn')
  c.method.returns = base.slot('reward_to_go', discount=0.95)
  c.method.advantages = base.slot('gigpo', omega=1.0, normalise='mean')
  return c
