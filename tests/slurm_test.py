"""Jobs as workers of a sweep: submitit's local executor in place of a cluster."""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from unittest import mock

from absl.testing import absltest

from scripts import cells
from scripts import cli
from scripts import launch
from scripts import slurm
from tests import fake_runner
from tests import sweep_test

try:
  import submitit
except ImportError:
  submitit = None

RUNNER = sweep_test.RUNNER
cell = sweep_test.cell


def nodes():
  """What sinfo reports as nodes that take jobs, such as 'a' or 'a[1-9]'; '' where none does."""
  try:
    done = subprocess.run(['sinfo', '--noheader', '--format=%N', '--states=idle,mixed,allocated',
                           '--responding'], capture_output=True, text=True, timeout=10)
  except (OSError, subprocess.TimeoutExpired):
    return ''
  return done.stdout.strip()


class RefusalTest(absltest.TestCase):

  def test_without_submitit(self):
    with mock.patch.dict(sys.modules, submitit=None):
      with self.assertRaisesRegex(cli.UsageError, r"pip install 'grpo\[slurm\]'$"):
        slurm.starter('local', 1, 1, 0)

  def test_parameters(self):
    self.assertEqual(slurm.parameters(['slurm_partition=long', 'mem_gb=8', 'slurm_array=a=b']),
                     dict(slurm_partition='long', mem_gb=8, slurm_array='a=b'))
    for wrong in ('long', '=long', 'a b=1'):
      with self.assertRaisesRegex(cli.UsageError, 'needs NAME=VALUE'):
        slurm.parameters([wrong])


@absltest.skipIf(submitit is None, 'submitit is not installed')
class QueueTest(absltest.TestCase):

  def test_only_a_definite_no_means_that_a_job_has_ended(self):
    for code, out, err, answer in (
        (0, '5 debug worker root R 0:03 1 node\n', '', True), (0, '', '', False),
        (1, '', 'slurm_load_jobs error: Invalid job id specified', False),
        (1, '', 'slurm_load_jobs error: Unable to contact slurm controller', True)):
      done = subprocess.CompletedProcess([], code, out, err)
      with mock.patch.object(subprocess, 'run', return_value=done):
        self.assertEqual(slurm.queued('5'), answer, err)
    for error in (FileNotFoundError('squeue'), subprocess.TimeoutExpired('squeue', 10)):
      with mock.patch.object(subprocess, 'run', side_effect=error):
        self.assertTrue(slurm.queued('5'))

  def test_a_job_of_which_nothing_else_is_known(self):
    folder = fake_runner.folder(self)
    (folder / 'plan.json').write_text('{"workdir": ".", "launch": "a", "cells": {"x": {}}}')
    unknown = mock.Mock(job_id='5', **{'done.return_value': False})
    with mock.patch.object(slurm, '_ASK_EVERY', -1.0):
      self.assertIsNone(slurm.Job(unknown, folder / 'plan.json', lambda name: True).poll())
      self.assertEqual(slurm.Job(unknown, folder / 'plan.json', lambda name: False).poll(), 1)


class JobsTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.workdir = fake_runner.folder(self)
    self.started = []
    self.enter_context(contextlib.redirect_stderr(io.StringIO()))

  def start(self, *place):
    self.started.append(slurm.starter('local', 5, 1, 0)(*place))
    return self.started[-1]

  def launch(self, *listed, processes=1):
    self.plan = launch.make_plan(listed)
    return launch.run(self.plan, self.workdir, processes=processes, runner=RUNNER, start=self.start)

  def log(self):
    return sorted(x.split()[0] for x in (self.workdir / 'log').read_text().splitlines())

  def test_unknown_parameter_and_no_cluster(self):
    path = self.workdir / 'plan.json'
    cells.write(path, '{"workdir": "", "launch": "", "cells": {}}')
    with self.assertRaisesRegex(cli.UsageError, '--launcher=slurm: .*partitoin'):
      slurm.starter('local', 1, 1, 0, dict(partitoin='long'))(path, 0, path)
    with mock.patch.dict(os.environ, PATH=''):
      with self.assertRaisesRegex(cli.UsageError, '--launcher=slurm: .*srun'):
        slurm.starter('slurm', 1, 1, 0)(path, 0, path)

  def test_failures_are_recorded_and_the_rest_goes_on(self):
    failed = self.launch(cell('raises', mode='raise'), cell('dies', mode='die'), cell('base'))
    self.assertEqual(cells.collect(self.workdir, self.plan), 1)
    reasons = {k.split('.')[0]: v for k, v in failed.items()}
    self.assertEqual(reasons['raises'], 'RuntimeError: the loss is not finite')
    self.assertEqual(reasons['dies'], 'the process ended with exit code 1')
    self.assertEqual(self.log(), ['base'])

  def test_a_killed_job_is_resumed_by_the_next_launch(self):
    listed = [cell('base'), cell('slow', mode='slow')]
    once = self.workdir / 'once-slow-8'
    # As in the background of a script, where processes ignore SIGINT unless told otherwise.
    self.addCleanup(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def kill():
      while not (once.exists() and self.started):
        time.sleep(0.05)
      os.kill(int(self.started[0]._job.job_id), signal.SIGINT)  # as scancel does

    thread = threading.Thread(target=kill)
    thread.start()
    failed = self.launch(*listed)
    thread.join()
    self.assertLen(failed, 1)
    self.assertEqual(self.launch(*listed), {})
    self.assertEqual(self.log(), ['base', 'slow'])
    self.assertEqual(cells.collect(self.workdir, self.plan), 2)

  def test_two_launchers_share_a_folder(self):
    listed = [cell(f'arm{i}', mode='pause') for i in range(6)]
    plan = launch.make_plan(listed)
    found = []
    starters = [launch.Launcher(plan, self.workdir, 1, RUNNER, self.start) for _ in range(2)]
    for i, one in enumerate(starters):  # in one process they would share a name
      one.launch += f'-{i}'
      one.folder = one.folder.with_name(one.launch)
    with mock.patch.object(signal, 'signal'):  # of the main thread alone
      threads = [threading.Thread(target=lambda one=one: found.append(one.run()))
                 for one in starters]
      for thread in threads:
        thread.start()
      for thread in threads:
        thread.join()
    self.assertEqual(found, [{}, {}])
    self.assertEqual(self.log(), [c.arm for c in listed])
    self.assertEqual(cells.collect(self.workdir, plan), 6)
    rows = (self.workdir / 'results.csv').read_text().splitlines()
    self.assertLen(set(rows), 1 + 6 * 3)

  def test_the_whole_command(self):
    done = subprocess.run(sweep_test.command(
        self.workdir / 'a', '--launcher=slurm', '--slurm_cluster=local', '--processes=2'),
        cwd=sweep_test.ROOT, capture_output=True, text=True)
    self.assertEqual(done.returncode, 0, done.stderr)
    self.assertIn('is not distinguishable from grpo', done.stdout)
    self.assertTrue((self.workdir / 'a' / 'figure.png').exists())

  def test_the_whole_command_on_a_real_slurm(self):
    if nodes() != socket.gethostname().split('.')[0]:  # others do not see this folder
      self.skipTest('no Slurm whose one node is this machine')
    done = subprocess.run(sweep_test.command(
        self.workdir / 'a', '--launcher=slurm', '--slurm_minutes=5', '--processes=2'),
        cwd=sweep_test.ROOT, capture_output=True, text=True, timeout=120)
    self.assertEqual(done.returncode, 0, done.stderr)
    self.assertIn('is not distinguishable from grpo', done.stdout)
    self.assertTrue((self.workdir / 'a' / 'figure.png').exists())
    scripts = list((self.workdir / 'a').glob('launches/*/jobs/[0-9]*_submission.sh'))
    self.assertLen(scripts, 2)  # sbatch was given them; jobs of this machine alone have none


if __name__ == '__main__':
  absltest.main()
