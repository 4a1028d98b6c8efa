"""GiGPO, normalised form: both of its advantages are divided by the std of their group.

arXiv:2505.10978, section 4

  python -m scripts.train --config=configs/gigpo_std.py:smoke --workdir=runs/gigpo_std

See configs/gigpo.py. Small anchor groups have a noisy std: expect more variance than without it.
"""

from configs import gigpo


def get_config(spec='small'):
  c = gigpo.get_config(spec)
  c.method.advantages.normalise = 'mean_std'
  return c
