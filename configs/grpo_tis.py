"""GRPO with truncated importance sampling of the anchor against the sampler.

arXiv:2110.00641; arXiv:2505.24298

  python -m scripts.train --config=configs/grpo_tis.py:smoke --workdir=runs/grpo_tis

Acts where the two differ: --config.sample.lag=4 makes rollouts stale. level=sequence takes whole
rows.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.old = 'recomputed'
  c.method.correction.weight = base.slot('tis', cap=2.0)
  return c
