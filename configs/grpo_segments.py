"""GRPO on windows: each context window of a rollout is a sample of its own in the group.

arXiv:2402.03300, section 4.1, applied to the windows that compaction makes of a rollout

  python -m scripts.train --config=configs/grpo_segments.py:smoke --workdir=runs/grpo_segments

What a trainer does that is handed windows and not rollouts: the reward of the rollout on each of
its windows, mean and std over all windows of the group, a mean over the tokens of each window and
then over windows. A rollout of more windows counts more, in the baseline and in the loss. Episodes
of several windows are the point: add --config.task.horizon=32, twice window.turns.
"""

from configs import base


def get_config(spec='small'):
  c = base.get_config(spec)
  c.method.chunk = base.slot('segment')
  c.method.advantages = base.slot('group_zscore', over='pooled')
  c.method.aggregate = base.slot('window')
  return c
