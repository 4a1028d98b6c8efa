"""Plays one episode of a task and prints it turn by turn; nothing is trained.

  python -m scripts.play --config=configs/grpo.py:smoke,triage
  python -m scripts.play --config=configs/grpo.py:smoke,line --config.task.drift=0.2 --seed=3
  python -m scripts.play --config=configs/grpo.py:smoke,horizon --policy=random
  python -m scripts.play --workdir=runs/grpo

The first line is the prompt. Each other one has the action, `(expert: ...)` where the scripted
expert would have done something else, what was seen then, and the reward. For `horizon` a line ends
with V*, the exact probability of success if the expert goes on from there. With --workdir the
episode is one of the newest checkpoint of a run by scripts.train (its first seed), on its config.
Where the rules are explained is said on stderr.
"""

import pathlib
import sys

from absl import flags

from scripts import cli

_CONFIG = cli.config_flag('configs/grpo.py:smoke')
_WORKDIR = cli.folder_flag('workdir', 'Folder of a run by scripts.train, in place of --config and '
                           '--policy.')
_POLICY = flags.DEFINE_enum('policy', 'expert', ['expert', 'random'],
                            'The scripted expert, or uniform tokens.')
_SEED = flags.DEFINE_integer('seed', 0, 'Of the instance and its noise.', lower_bound=0,
                             upper_bound=2 ** 31 - 1)


def _values(actor):
  """State -> text of its exact value under the expert, '' for other tasks than horizon."""
  from grpo.study import oracle
  spec = actor.config['task']
  if spec['name'] != 'horizon':
    return lambda state: ''
  exact = oracle.solve(actor.knobs, oracle.mixture(spec['actions'], 1.0), actions=spec['actions'],
                       max_turns=spec['max_turns'], goals=spec['goals'])
  value = lambda state: float(oracle.lookup(exact.V, actor.task.state_id(state)[None])[0])
  return lambda state: f'   V* {value(state):.3f}'


def main(argv):
  del argv
  from scripts import device  # sets up JAX before anything imports it
  device.prepare()
  import jax

  from grpo import build
  from grpo import check
  from grpo import keys
  from grpo import tasks
  from grpo.learn import pretrained
  from grpo.study import evaluation
  from grpo.study import play

  key = keys.root(_SEED.value)
  if _WORKDIR.value:
    if any(flags.FLAGS[name].present for name in ('config', 'policy')):
      raise cli.UsageError('--workdir plays the policy of a run on its config: give it alone')
    config, _, _, state = evaluation.load(pathlib.Path(_WORKDIR.value))
    config, params = pretrained.whole(config, jax.tree.map(lambda x: x[0], state.params))
    actor = build.actor(config)
    turns = play.sampled(actor, params, key)
  else:
    config = build.plain(_CONFIG.value)
    check.check(config)
    actor = build.actor(config)
    act = play.uniform(actor.task) if _POLICY.value == 'random' else actor.task.expert
    turns = play.turns(actor.task, act, key, **actor.knobs)
  name = config['task']['name']
  page = f'docs/tasks.md#{name}' if name in tasks.__all__ else 'docs/llm.md'
  print(f'{name}: rules and knobs are in {page}', file=sys.stderr, flush=True)
  expert, value, advice = jax.jit(actor.task.expert), _values(actor), ''
  for i, turn in enumerate(turns):
    note = '' if turn.action == advice else f'   (expert: {advice})'
    end = f', {turn.over}' if turn.over else ''
    print(f'{i}. {turn.action or "-"}{note} -> {turn.observation}   '
          f'[reward {turn.reward:.2f}{end}]{value(turn.state)}' if i else
          f'{turn.observation}{value(turn.state)}', flush=True)
    advice = actor.task.render(*expert(turn.state, key))
  return 0


if __name__ == '__main__':
  cli.run(main)
