"""Tests of how much optimising a program gets, and of programs that several cells share."""

import dataclasses
import importlib
import json
import os
import pathlib
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from grpo import build
from grpo.learn import actors
from grpo.learn import compiling
from grpo.learn import loop
from grpo.study import evaluation
from scripts import cells
from scripts import experiment
from tests import learn_test

MODEL = dict(name='transformer', layers=2, hidden=32)


class OptionsTest(parameterized.TestCase):

  @parameterized.parameters(1, 2, 3)
  def test_brief_programs_only_and_never_against_the_user(self, level):
    low = {'xla_backend_optimization_level': 0}
    with mock.patch.dict(os.environ, XLA_FLAGS='--xla_cpu_multi_thread_eigen=false'):
      self.assertEqual(compiling.options(MODEL, 1000), low)
      self.assertNotEqual(compiling.options(MODEL, compiling.BRIEF), low)
      self.assertEqual(compiling.options(MODEL, compiling.LONG), {})
      self.assertEqual(compiling.options(dict(name='tabular'), 1000), low)
    with mock.patch.dict(os.environ, XLA_FLAGS=f'--xla_backend_optimization_level={level}'):
      self.assertEqual(compiling.options(MODEL, 1000), {})

  def test_accelerators_are_left_alone(self):
    with mock.patch.dict(os.environ, XLA_FLAGS=''), \
         mock.patch('jax.default_backend', return_value='gpu'):
      self.assertEqual(compiling.options(MODEL, 1), {})

  def test_work_of_a_run(self):
    found = {}
    for name in ('grpo', 'sao'):
      c = build.plain(importlib.import_module(f'configs.{name}').get_config('smoke,arithmetic'))
      c['steps'], c['sample']['prompts'], c['sample']['group'] = 10, 6, 3
      parts = build.parts(c)
      found[name] = loop._positions(c, parts)
      row = parts.layout.action + parts.layout.observation
      self.assertEqual(parts.layout.turns, 1)
    once = 10 * 6 * (parts.layout.prompt + 3 * row)
    self.assertEqual(found['grpo'], once)
    # Two updates of the critic and its values against sampling, scoring and one epoch.
    self.assertAlmostEqual(found['sao'], once * (1 + 7 / 5), places=3)

  def test_a_brief_run_trains_resumes_and_is_evaluated(self):
    config = learn_test.small(**{'clone.steps': 20, 'clone.every': 10, 'clone.prompts': 4})
    with mock.patch.dict(os.environ, XLA_FLAGS=''), \
         tempfile.TemporaryDirectory() as folder:
      actors.programs.cache_clear()
      loop._programs.cache_clear()
      out = loop.run(config, seeds=[0, 1], workdir=folder, cache=folder + '/warm')
      again = loop.run(config, seeds=[0, 1], workdir=folder, cache=folder + '/warm')
      np.testing.assert_array_equal(out['success'], again['success'])
      scores = evaluation.run(pathlib.Path(folder), prompts=4, repeats=2, passes=[1])
    actors.programs.cache_clear()
    loop._programs.cache_clear()
    self.assertLen(scores['seeds'], 2)


class SharedProgramTest(absltest.TestCase):

  def test_cells_that_differ_in_scalars_share_one_program(self):
    one = cells.Cell('try', 'grpo', 'horizon', '1 turn', 'configs/grpo.py:smoke,horizon',
                     {'task.horizon': 2, 'task.decisive': 1, 'window.turns': 2, 'steps': 2,
                      'log_every': 2,
                      'clone.steps': 0, 'checkpoint.every': 2, 'model': dict(name='tabular')},
                     (0, 1), scalars={'task.horizon': 1},
                     tests={'as trained': {'task.horizon': 1}, 'longer': {'task.horizon': 2}})
    two = dataclasses.replace(one, setting='2 turns', scalars={'task.horizon': 2})
    self.assertNotEqual(cells.cell_id(one), cells.cell_id(two))
    self.assertEqual(cells.Cell.from_json(json.loads(json.dumps(one.to_json()))), one)
    with tempfile.TemporaryDirectory() as folder:
      out = [experiment.run_cell(c, pathlib.Path(folder) / c.setting, lambda *_: None)
             for c in (one, two)]
    text = json.dumps(build.plain(cells.resolve(one)), sort_keys=True)
    program = loop._programs(text, ('task.horizon',))
    self.assertEqual(program.stretch._cache_size(), 1)
    rollouts = 2 * 8 * 4
    self.assertEqual(list(out[0]['tokens_sampled']), [rollouts, rollouts])
    np.testing.assert_array_equal(out[0]['test/as trained'], out[0]['curve/success'][:, -1])
    self.assertLen(out[0]['test/longer'], 2)
    np.testing.assert_array_equal(out[1]['test/longer'], out[1]['curve/success'][:, -1])
    self.assertEqual(list(out[1]['tokens_sampled']), [2 * rollouts, 2 * rollouts])

  def test_unknown_scalar(self):
    bad = cells.Cell('try', 'grpo', 'horizon', 'x', 'configs/grpo.py:smoke,horizon', {}, (0,),
                     scalars={'task.horizn': 1})
    with self.assertRaisesRegex(Exception, 'task.horizon'):
      cells.resolve(bad)


if __name__ == '__main__':
  absltest.main()
