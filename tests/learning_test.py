"""Every config learns on a probe with a known optimum, from a table of logits, in seconds.

The probes are settings of the task `horizon` with two actions and room for four turns. Knobs are
arguments of the program, so all probes of a config are lanes of one program, compiled once.
"""

import importlib
import pathlib

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from configs import base
from grpo.learn import loop

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAMES = sorted(p.stem for p in (ROOT / 'configs').glob('*.py')
               if p.stem not in ('base', '__init__'))

# Probe -> knobs. The optimum is success 1 on each.
PROBES = dict(
    bandit=dict(horizon=1, decisive=1, delay=0),     # one choice
    delayed=dict(horizon=4, decisive=1, delay=3),    # the first turn decides, the fourth pays
    two_turns=dict(horizon=2, decisive=2, delay=0))  # both turns have to be right
STEPS, EVERY = 40, 20
MARGIN = 0.3  # by which success has to rise: a sixth of a table's first episodes succeeds


def config(name, actions=2):
  c = importlib.import_module(f'configs.{name}').get_config('smoke,horizon')
  c.model = base.slot('tabular')
  c.task.horizon, c.task.actions, c.task.decisive, c.window.turns = 4, actions, 1, 4
  c.clone.steps, c.clone.pass_rate, c.clone.learning_rate, c.clone.every = 100, 0.2, 0.05, 5
  c.steps, c.log_every, c.checkpoint.every = STEPS, EVERY, STEPS
  c.train.learning_rate = 0.1
  c.evaluate.prompts = 256
  return c


def gains(c, probes, seeds=(0, 1)):
  """Success after the clone and after training; (lanes of a probe) x seeds -> dict of pairs."""
  lanes = [(p, s) for p in probes for s in seeds]
  settings = {f'task.{knob}': [PROBES[p][knob] for p, _ in lanes]
              for knob in ('horizon', 'decisive', 'delay')}
  out = loop.run(c, seeds=[s for _, s in lanes], settings=settings)
  return {p: (out['success'][0], out['success'][-1]) for p in probes}, out


if __name__ == '__main__':
  absltest.main()
