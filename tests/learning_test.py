"""Every config compiles once, stays finite and learns on probes, from a table of logits.

The probes are settings of the task `horizon` with two actions and room for four turns. Knobs are
arguments of the program, so all probes and seeds of a config are lanes of one program, compiled
once; every config starts from the same cloned tables.
"""

import importlib
import json
import pathlib
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from configs import base
from grpo import build
from grpo.learn import loop
from grpo.tasks import triage
from tests import toy

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAMES = sorted(p.stem for p in (ROOT / 'configs').glob('[!_]*.py')
               if p.stem not in ('base', '__init__', 'llm',
                                 'igpo'))  # a test of its own, at the end

# Probe -> knobs. The optimum is success 1 on each.
PROBES = dict(
    bandit=dict(horizon=1, decisive=1, delay=0),     # one choice, two cues
    delayed=dict(horizon=4, decisive=1, delay=3),    # the first turn decides, the fourth pays
    two_turns=dict(horizon=2, decisive=2, delay=0))  # both turns have to be right
CUES = 5        # of the prompt-dependent probe: one turn, and each prompt has an answer of its own
SEEDS = (0, 1)
STEPS = 40      # 32 rollouts each
MARGIN = 0.5    # by which the mean success of the seeds has to rise; it starts at 0.2 to 0.3

# What a method is not made for, each with its reason. Everything else has to rise by MARGIN.
OUT_OF_REACH = {
    ('entropy_top', 'delayed'):
        'three of four tokens decide nothing and stay unsure, so that they are the top fifth and '
        'the one that decides loses its gradient half way'}


def config(name, actions=2):
  c = importlib.import_module(f'configs.{name}').get_config('smoke,horizon')
  c.model = base.slot('tabular')
  c.task.horizon, c.task.actions, c.task.decisive, c.window.turns = 4, actions, 1, 4
  c.clone.steps, c.clone.pass_rate, c.clone.learning_rate, c.clone.every = 100, 0.2, 0.05, 5
  c.steps, c.log_every, c.checkpoint.every = STEPS, STEPS // 2, STEPS
  c.train.learning_rate = 0.1
  c.evaluate.prompts = 256
  return c


def rises(c, probes):
  """Probe -> success after the clone and after training, means over seeds."""
  lanes = [(p, s) for p in probes for s in SEEDS]
  settings = {f'task.{knob}': [PROBES[p][knob] for p, _ in lanes]
              for knob in ('horizon', 'decisive', 'delay')}
  out = loop.run(c, seeds=[s for _, s in lanes], settings=settings)
  program = loop._programs(json.dumps(build.plain(c), sort_keys=True), tuple(sorted(settings)))
  assert program.stretch._cache_size() == 1, 'a step was compiled more than once'
  assert max(out['bad_step']) == -1 and np.isfinite(out['reward']).all()
  of = lambda row, probe: np.mean([x for x, (p, _) in zip(row, lanes, strict=True) if p == probe])
  return {p: (of(out['success'][0], p), of(out['success'][-1], p)) for p in probes}


# One or two of each kind; the others are left to `make test-all`.
HEADS = ('entropy_top', 'grpo', 'horizon_chunked_critic', 'sao', 'spo_single', 'tree_grpo')


class Probes:
  """The claim of both classes."""

  def check_learns(self, name):
    for probe, (before, after) in rises(config(name), list(PROBES)).items():
      with self.subTest(probe):
        self.assertBetween(before, 0.1, 0.45, 'the clone left no room')
        if (name, probe) in OUT_OF_REACH:
          self.assertLess(after - before, MARGIN, 'it learns: take it out of OUT_OF_REACH')
        else:
          self.assertGreater(after - before, MARGIN)

  def check_answers(self, name):
    (before, after), = rises(config(name, actions=CUES), ['bandit']).values()
    self.assertBetween(before, 0.1, 0.45)
    self.assertGreater(after - before, MARGIN)


class LearningTest(Probes, parameterized.TestCase):

  @parameterized.parameters(*HEADS)
  def test_config_learns(self, name):
    self.check_learns(name)

  @parameterized.parameters('grpo', 'sao')
  def test_answers_depend_on_the_prompt(self, name):
    self.check_answers(name)

  def test_information_gain_learns_to_ask(self):
    """The task horizon has no answer. Here one is drawn anew, and shown to those who ask."""
    c = config('igpo')
    c.task = base.get_config('smoke,triage').task
    c.task.horizon = 4
    knobs = triage.make(max_turns=4).knobs
    with mock.patch.object(triage, 'make', lambda max_turns: toy.lab(knobs)):
      out = loop.run(c, seeds=list(SEEDS))
    self.assertBetween(out['success'][0].mean(), 0.1, 0.45)
    self.assertGreater(out['success'][-1].mean() - out['success'][0].mean(), MARGIN)


class OthersTest(Probes, parameterized.TestCase):

  @parameterized.parameters('ppo', 'rloo')
  def test_answers_depend_on_the_prompt(self, name):
    self.check_answers(name)

  @parameterized.parameters(*sorted(set(NAMES) - set(HEADS)))
  def test_config_learns(self, name):
    self.check_learns(name)


if __name__ == '__main__':
  absltest.main()
