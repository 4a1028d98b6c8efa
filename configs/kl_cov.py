"""KL-Cov: GRPO without a clip; the tokens of highest covariance pay for their drift.

arXiv:2505.22617

  python -m scripts.train --config=configs/kl_cov.py:smoke --workdir=runs/kl_cov

Nothing happens at the first update of a batch, where no token has drifted.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.surrogate = base.slot('kl_cov', coef=1.0, share=2e-4)
  c.method.aggregate = base.slot('token')
  return c
