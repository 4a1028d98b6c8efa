"""What every config file keeps to, and that every task trains."""

import importlib
import pathlib

from absl.testing import absltest
from absl.testing import parameterized
import jax
import numpy as np

from configs import base
from grpo import build
from grpo import check
from grpo import keys
from grpo.learn import loop
from grpo.rollout import demos

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = sorted(p.stem for p in (ROOT / 'configs').glob('[!_]*.py')
               if p.stem not in ('base', '__init__', 'llm'))


def config(name, spec='smoke'):
  return importlib.import_module(f'configs.{name}').get_config(spec)


class ConfigsTest(parameterized.TestCase):

  @parameterized.parameters(*NAMES)
  def test_docstring_has_source_and_command(self, name):
    text = importlib.import_module(f'configs.{name}').__doc__
    self.assertIn(f'python -m scripts.train --config=configs/{name}.py:smoke', text)
    self.assertRegex(text, r'arXiv:\d{4}\.\d{5}|section')

  @parameterized.parameters(*NAMES)
  def test_a_variant_changes_slots_and_nothing_else(self, name):
    plain, changed = build.plain(base.get_config('smoke')), build.plain(config(name))
    rest = {k for k in plain if plain[k] != changed[k]} - {'method', 'sample', 'train'}
    self.assertEmpty(rest)
    self.assertEqual(plain['sample']['prompts'] * plain['sample']['group'],
                     changed['sample']['prompts'] * changed['sample']['group'])
    moved = {k for k in plain['train'] if plain['train'][k] != changed['train'][k]}
    self.assertLessEqual(moved, {'minibatches'})

  @parameterized.parameters('line', 'meeting', 'triage')
  def test_scenes_train_two_steps(self, task):
    c = config('grpo', f'smoke,{task}')
    c.model = base.slot('tabular')
    c.log_every = 2
    check.check(build.plain(c))
    programs = loop.Programs(build.plain(c))
    state, metrics, _ = programs.stretch(programs.initial(np.arange(1, dtype=np.int32), None, ()),
                                         ())
    self.assertEqual(state.step.tolist(), [2])
    self.assertEqual(state.bad_step.tolist(), [-1])
    self.assertTrue(np.isfinite(metrics.totals).all())

  @parameterized.parameters('countdown', 'ladder', 'keychain', 'sokoban')
  def test_a_task_trains_two_steps_and_is_cloned(self, task):
    c = config('grpo', f'smoke,{task}')
    c.model = base.slot('tabular')
    c.log_every = 1
    if task == 'keychain':
      c.task.doors = 1
    programs = loop.Programs(build.plain(c))
    state = programs.initial(np.arange(1, dtype=np.int32), None, ())
    for _ in range(2):
      state, metrics, _ = programs.stretch(state, ())
    self.assertTrue(np.isfinite(metrics.totals).all())
    self.assertEqual(state.step.tolist(), [2])
    self.assertEqual(state.bad_step.tolist(), [-1])
    parts = build.parts(c)
    shown = jax.jit(lambda key: demos.demonstrate(
        parts.task, parts.layout, parts.knobs, key, step=0, prompts=8, samples=2, noise=0.0))(
            keys.root(0))
    self.assertEqual(float(shown.success.mean()), 1)
    self.assertTrue(bool(shown.terminated.all()))


if __name__ == '__main__':
  absltest.main()
