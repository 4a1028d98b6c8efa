"""Clip-Cov: GRPO where a few random tokens of high covariance lose their gradient.

arXiv:2505.22617

  python -m scripts.train --config=configs/clip_cov.py:smoke --workdir=runs/clip_cov

High covariance is where entropy is lost. The share is of tokens; at least one is dropped.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.gate.covariance = base.slot('clip_cov', share=2e-4, low=1.0, high=5.0)
  c.method.aggregate = base.slot('token')
  return c
