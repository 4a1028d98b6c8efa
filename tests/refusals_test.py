"""Tests of what commands refuse or survive: damaged files, folders of others, bad values."""

from concurrent import futures
import contextlib
import errno
import importlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import types
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from configs import base
from grpo import build
from grpo.study import evaluation
from scripts import cells
from scripts import cli
from scripts import compute
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

  @parameterized.parameters('', '{"curves": {"suc', '[]', '{}', '\0\0', '{"curves": 3}')
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


class FolderTest(parameterized.TestCase):

  def run_it(self, workdir, name='quickstart', size='smoke'):
    """A sweep whose cells have all finished before it starts."""
    store(workdir, launch.make_plan(experiment.experiment(name).cells(size)))
    with contextlib.redirect_stdout(io.StringIO()):
      return experiment.run(name, size, workdir, processes=1, runner=RUNNER)

  def refuse(self, workdir, pattern, size='small'):
    with mock.patch.object(launch, 'run', side_effect=AssertionError('cells ran')):
      with self.assertRaisesRegex(cli.UsageError, pattern):
        experiment.run('quickstart', size, workdir, processes=1, runner=RUNNER)

  def test_a_workdir_belongs_to_one_sweep(self):
    workdir = fake_runner.folder(self)
    self.assertEqual(self.run_it(workdir), 0)
    self.assertEqual(json.loads((workdir / 'sweep.json').read_text()),
                     dict(experiment='quickstart', size='smoke'))
    before = {p: p.read_bytes() for p in workdir.rglob('*') if p.is_file()}
    self.refuse(workdir, 'holds the sweep quickstart of size smoke, not quickstart of size small')
    (workdir / 'sweep.json').unlink()  # as written by an older version
    self.refuse(workdir, 'holds results of another sweep than quickstart of size small')
    del before[workdir / 'sweep.json']
    self.assertEqual(before, {p: p.read_bytes() for p in workdir.rglob('*') if p.is_file()})
    self.assertEqual(self.run_it(workdir), 0)
    (workdir / 'sweep.json').write_text('{"exp')
    self.refuse(workdir, 'sweep.json is unreadable', size='smoke')

  def test_of_two_that_start_at_once_one_gets_the_workdir(self):
    workdir = fake_runner.folder(self)

    def claim(size):
      try:
        experiment._claim(workdir, 'quickstart', size, {})
        return size
      except cli.UsageError:
        return None

    with futures.ThreadPoolExecutor(8) as pool:
      got = set(pool.map(claim, ['smoke', 'small'] * 8))
    self.assertLen(got - {None}, 1)

  def test_without_its_base_there_is_no_table(self):
    workdir = fake_runner.folder(self)
    plan = launch.make_plan(experiment.experiment('quickstart').cells('smoke'))
    store(workdir, {n: c for n, c in plan.items() if c.arm != 'grpo'})
    failed = {n: 'reason' for n, c in plan.items() if c.arm == 'grpo'}
    with mock.patch.object(launch, 'run', return_value=failed), \
         contextlib.redirect_stdout(io.StringIO()) as printed:
      self.assertEqual(
          experiment.run('quickstart', 'smoke', workdir, processes=1, runner=RUNNER), 1)
    self.assertStartsWith(printed.getvalue(), 'no table: no cell of grpo has finished')
    self.assertIn('3 of 12 cells have no result', printed.getvalue())
    module = experiment.experiment('quickstart')
    with mock.patch.object(module, 'BASE', 'grop'):
      self.refuse(workdir, "no arm of quickstart for its BASE 'grop': did you mean 'grpo'", 'smoke')

  def test_what_is_computed_or_cannot_be_drawn(self):
    with self.assertRaisesRegex(cli.UsageError, 'snr is computed .* scripts.figures --name=snr$'):
      experiment.experiment('snr')
    root = fake_runner.folder(self)
    (root / 'experiments' / 'mine').mkdir(parents=True)
    (root / 'experiments' / 'mine' / 'sweep.py').touch()
    with mock.patch.object(cli, 'ROOT', root), self.assertRaisesRegex(
        cli.UsageError, 'experiments/mine has no plot.py, see CONTRIBUTING.md$'):
      experiment.experiment('mine', 'plot')
    with mock.patch.object(importlib, 'import_module', return_value=types.SimpleNamespace(cells=0)):
      with mock.patch.object(cli, 'ROOT', root), self.assertRaisesRegex(
          cli.UsageError, 'experiments/mine/sweep.py has no BASE, SCORE, see CONTRIBUTING.md$'):
        experiment.experiment('mine')
      refused = mock.patch.object(compute, 'compute', side_effect=AssertionError('it began'))
      with refused, self.assertRaisesRegex(cli.UsageError, 'snr/plot.py has no figure'):
        compute.run('snr', 'smoke', root / 'w', root / 'w')

  def test_a_workdir_of_a_single_run(self):
    workdir = fake_runner.folder(self)
    (workdir / 'config.json').write_text('{}')
    self.refuse(workdir, 'holds a run of scripts.train')
    self.assertEqual(os.listdir(workdir), ['config.json'])

  def test_what_is_in_the_way(self):
    folder = fake_runner.folder(self)
    (folder / 'file').touch()
    self.refuse(folder / 'file', 'file is in the way, it is not a folder')
    self.refuse(folder / 'file' / 'deep', 'file is in the way, it is not a folder')
    (folder / 'a' / 'results.csv').mkdir(parents=True)
    self.refuse(folder / 'a', 'results.csv is in the way, it is a folder')

  def test_write_leaves_nothing_beside(self):
    folder = fake_runner.folder(self)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with mock.patch.object(os, 'fsync', side_effect=full):
      with self.assertRaisesRegex(OSError, r"No space left on device: '.*a.csv'"):
        cells.write(folder / 'a.csv', 'text')
    with self.assertRaises(UnicodeEncodeError):
      cells.write(folder / 'a.csv', '\ud800')
    self.assertEmpty(os.listdir(folder))
    (folder / 'b').touch()
    with self.assertRaises(OSError):
      cells.write(folder / 'b' / 'c.csv', 'text')


# One process for all: flags of a command may be defined only once in this one.
EVALUATE = '''
import sys
from absl import flags
from absl.testing import flagsaver
from scripts import cli
from scripts import evaluate
flags.FLAGS(['evaluate', '--workdir=runs/none'])
for argument in sys.argv[1:]:
  with flagsaver.flagsaver():
    flags.FLAGS(['evaluate', argument])
    try:
      evaluate.main([])
    except cli.UsageError as error:
      print(error)
'''
_TASK = 'changes the task only; FIELD must start with task.'
_NUMBER = 'needs task.FIELD=NUMBER, such as task.horizon=8'
BAD = {
    '--top_p=0': 'must be above 0, at most 1', '--top_p=nan': 'must be above 0, at most 1',
    '--top_p=1.1': 'must be above 0, at most 1', '--temperature=0': 'must be above 0, finite',
    '--temperature=nan': 'must be above 0, finite',
    '--temperature=inf': 'must be above 0, finite',
    '--set=model.hidden=8': _TASK, '--set=horizon=8': _TASK, '--set=task.name="horizon"': _NUMBER,
    '--set=task.horizon=true': _NUMBER, '--set=task.visibility=NaN': _NUMBER,
    '--set=task.horizon': _NUMBER}


def start(*arguments):
  """A command that hears SIGINT, also where these tests were started in the background."""
  return subprocess.Popen([sys.executable, '-m', *map(str, arguments)], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


class CommandTest(parameterized.TestCase):

  @parameterized.parameters(
      (('train',), 'workdir'), (('sweep', '--experiment=quickstart'), 'workdir'),
      (('figures', '--name=quickstart'), 'workdir'), (('figures', '--name=quickstart'), 'out'),
      (('evaluate',), 'workdir'))
  def test_empty_folder(self, command, flag):
    name, *more = command
    out, err = (process := start(f'scripts.{name}', *more, f'--{flag}=')).communicate()
    self.assertEqual((process.returncode, out, err.count('\n')), (2, '', 1), err)
    self.assertRegex(err, f'--{flag}=: needs a folder, such as runs/try')

  def test_out_is_checked_before_cells_run(self):
    folder = fake_runner.folder(self)
    (folder / 'out').touch()
    process = start('scripts.figures', '--name=quickstart', '--size=smoke', f'--runner={RUNNER}',
                    f'--workdir={folder / "runs"}', f'--out={folder / "out"}')
    _, err = process.communicate()
    self.assertEqual((process.returncode, err.count('\n')), (2, 1), err)
    self.assertRegex(err, '--out=.*out is in the way, it is not a folder')
    self.assertEqual(os.listdir(folder), ['out'])

  def test_train_in_the_folder_of_a_sweep(self):
    folder = fake_runner.folder(self)
    (folder / 'sweep.json').touch()
    _, err = (process := start('scripts.train', f'--workdir={folder}')).communicate()
    self.assertEqual(process.returncode, 2, err)
    self.assertRegex(err, r'^train: --workdir=\S* holds a sweep: choose another folder')

  def test_an_audit_refuses_what_training_does(self):
    _, err = (process := start('scripts.audit', '--config=configs/grpo.py:smoke',
                               '--config.task.order=2', '--config.task.decisive=3')).communicate()
    self.assertEqual(process.returncode, 2, err)
    self.assertIn('task.order=2: must be 0, or an integer that divides task.decisive=3', err)

  def test_evaluate(self):
    process = subprocess.run([sys.executable, '-c', EVALUATE, *BAD], cwd=ROOT, text=True,
                             capture_output=True)
    self.assertEqual(process.returncode, 0, process.stderr)
    for (argument, message), line in zip(BAD.items(), process.stdout.splitlines(), strict=True):
      self.assertEqual(line, f'{argument}: {message}')

  @parameterized.parameters('', '{"config": ', '[]', '{}', '{"config": 3, "seeds": 4}')
  def test_evaluate_names_a_config_that_is_unreadable(self, text):
    folder = fake_runner.folder(self)
    (folder / 'config.json').write_text(text)
    with self.assertRaisesRegex(ValueError, f'{folder}/config.json is unreadable: it should hold'):
      evaluation.load(folder)
    with self.assertRaisesRegex(ValueError, 'top_p: must be above 0 and at most 1, got nan'):
      evaluation.run(folder, prompts=1, repeats=1, passes=[1], top_p=float('nan'))

  @parameterized.parameters(
      ('task.horizon', 1024, 'task.horizon=1024 does not fit in task.max_turns='),
      ('task.partial', 1e9, 'task.partial: must be in'), ('task.delay', -1, 'task.delay'),
      ('task.delay', 1.5, 'task.delay=1.5: must be an integer'), ('task.rules', 9, 'task.rules'),
      ('task.name', 3, "task.name=3: only numbers can be changed, and it is 'line'"),
      ('task.machines', 5, 'task.machines: changes the words of the task, 57 in training and 61'))
  def test_what_training_refuses_is_no_test_either(self, path, value, message):
    plain = build.plain(base.get_config('smoke,line'))
    with self.assertRaisesRegex(ValueError, message):
      evaluation._changed(plain, {path: value})
    self.assertEqual(evaluation._changed(plain, {'task.delay': 1.0})['task']['delay'], 1)

  @parameterized.parameters((signal.SIGTERM, 143), (signal.SIGINT, 130))
  def test_exit_code_of_a_signal(self, signum, code):
    workdir = fake_runner.folder(self)
    process = start('scripts.sweep', '--experiment=quickstart', '--size=smoke', '--processes=1',
                    f'--workdir={workdir}', '--runner=tests.fake_runner:hang')
    while not list(workdir.glob('launches/*/worker-0.json')):
      self.assertIsNone(process.poll())
      time.sleep(0.05)
    process.send_signal(signum)
    _, err = process.communicate(timeout=240)
    self.assertEqual(process.returncode, code, err)
    self.assertNotIn('Traceback', err)


if __name__ == '__main__':
  absltest.main()
