"""Tests of what commands refuse or survive: damaged files, folders of others, values out of range."""

import contextlib
import errno
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from scripts import cells
from scripts import cli
from scripts import experiment
from scripts import launch
from tests import fake_runner

ROOT = pathlib.Path(__file__).resolve().parents[1]
RUNNER = 'tests.fake_runner:run'


def cell(arm='base'):
  return cells.Cell('try', arm, 'horizon', '8', 'configs/grpo.py:smoke,horizon', {}, (0, 1, 2))


def store(workdir, plan):
  """Results as a worker stores them, without one."""
  for name, one in plan.items():
    out = cells.check(one, fake_runner.result(one))
    cells.write(cells.result_path(workdir, name), json.dumps(out | dict(
        commit='c', versions='v', config_hash='h', timing=dict(seconds=1.0, cores=1))))


class DamagedTest(parameterized.TestCase):

  @parameterized.parameters('', '{"curves": {"suc', '[]', '{}', '\0\0', '{"steps": [], "curves": 3}')
  def test_a_damaged_result_runs_again(self, text):
    workdir = fake_runner.folder(self)
    plan = launch.make_plan([cell('base'), cell('up')])
    store(workdir, plan)
    base, _ = plan
    cells.result_path(workdir, base).write_text(text)
    with contextlib.redirect_stderr(io.StringIO()) as printed:
      self.assertEqual(cells.collect(workdir, plan), 1)
    self.assertRegex(printed.getvalue(), rf'^warning: \S*{base}.json is damaged: .*\n$')
    self.assertLen((workdir / 'results.csv').read_text().splitlines(), 1 + 3)
    with contextlib.redirect_stderr(io.StringIO()):
      todo = launch.Launcher(plan, workdir, 1, RUNNER)
    self.assertEqual(todo.skipped, set(plan) - {base})
    self.assertEqual(cells.result_path(workdir, base).with_suffix('.damaged').read_text(), text)

  def test_a_damaged_failure_is_ignored(self):
    workdir = fake_runner.folder(self)
    plan = launch.make_plan([cell()])
    todo = launch.Launcher(plan, workdir, 1, RUNNER)
    for text in ('', '{"lau', '[]', '{}'):
      cells.write(cells.failure_path(workdir, list(plan)[0]), text)
      self.assertEqual(todo.failures(), {})

  def test_no_finished_cell_leaves_the_tables(self):
    workdir = fake_runner.folder(self)
    plan = launch.make_plan([cell()])
    store(workdir, plan)
    self.assertEqual(cells.collect(workdir, plan), 1)
    before = {p.name: p.read_bytes() for p in workdir.glob('*.csv')}
    self.assertLen(before, 3)
    self.assertEqual(cells.collect(workdir, launch.make_plan([cell('other')])), 0)
    self.assertEqual(before, {p.name: p.read_bytes() for p in workdir.glob('*.csv')})


if __name__ == '__main__':
  absltest.main()
