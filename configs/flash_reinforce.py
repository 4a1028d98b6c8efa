"""FlashREINFORCE: one sample, mean of the batch, detached ratios, rows gated by their KL.

The paper (NVIDIA, September 2026), section method, as in the loss that its authors publish:
yifanzhang-pro/FlashREINFORCE; no arXiv id is known

  python -m scripts.train --config=configs/flash_reinforce.py:smoke --workdir=runs/flash_reinforce

The ratio is against the sampler and unclipped; one update a batch. Rows with a mean binary KL above
0.003 nats a token get weight 0 and stay in the divisor, which is the row's length, then the rows.
"""

from configs import base


def get_config(spec='small'):
  c = base.single_rollout(base.get_config(spec))
  c.method.advantages = base.slot('batch_center')
  c.method.surrogate = base.slot('importance')
  c.method.gate.trust = base.slot('sequence_kl', delta=3e-3)
  c.train.minibatches = 1
  return c
