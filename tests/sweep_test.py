"""Tests of the machinery of sweeps, with a stand-in for training: see tests/fake_runner.py."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import re
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
from scripts import locks
from scripts import worker
from tests import fake_runner

ROOT = pathlib.Path(__file__).resolve().parents[1]
RUNNER = 'tests.fake_runner:run'


def cell(arm='base', setting='8', mode='', **changes):
  return cells.Cell('try', arm, 'horizon', setting, 'configs/grpo.py:smoke,horizon',
                    {'task.horizon': int(setting)}, (0, 1, 2), horizon=int(setting), group=mode,
                    **changes)


def command(workdir, *more, module='scripts.sweep', name='--experiment=quickstart'):
  return [sys.executable, '-m', module, name, '--size=smoke', f'--workdir={workdir}',
          f'--runner={RUNNER}', *more]


class CellsTest(parameterized.TestCase):

  def test_id_changes_with_config_and_seeds_only(self):
    one = cell()
    self.assertEqual(cells.cell_id(one), cells.cell_id(dataclasses.replace(one, cost=9.0)))
    for other in (dataclasses.replace(one, seeds=(0, 1)),
                  dataclasses.replace(one, overrides={'task.horizon': 9}),
                  dataclasses.replace(one, config='configs/grpo.py:small,horizon')):
      self.assertNotEqual(cells.cell_id(one), cells.cell_id(other))
    self.assertRegex(cells.cell_id(one), r'^[\w.-]+$')

  def test_overrides(self):
    config = cells.resolve(dataclasses.replace(cell(), overrides={
        'sample.temperature': 0.5, 'method.surrogate': dict(name='dis', low=0.1, high=3.0)}))
    self.assertEqual(config.sample.temperature, 0.5)
    self.assertEqual(config.method.surrogate.to_dict(), dict(name='dis', low=0.1, high=3.0))

  @parameterized.parameters(
      ({'sample.temprature': 1.0}, 'sample.temperature'),
      ({'temperature': 1.0}, 'sample.temperature'),
      ({'task.horizon': 'long'}, "task.horizon='long'"),
      ({'methods.kl': dict(name='k3')}, 'method'))
  def test_bad_overrides(self, overrides, hint):
    with self.assertRaisesRegex(cli.UsageError, f'base: .*{hint}'):
      cells.resolve(dataclasses.replace(cell(), overrides=overrides))

  def test_two_cells_with_one_label(self):
    with self.assertRaisesRegex(cli.UsageError, 'two cells are called'):
      launch.make_plan([cell(), cell()])

  def test_check(self):
    out = fake_runner.result(cell())
    self.assertEqual(cells.check(cell(), out)['counters']['rollouts'], [1280] * 3)
    with self.assertRaisesRegex(ValueError, 'no rollouts'):
      cells.check(cell(), {k: v for k, v in out.items() if k != 'rollouts'})
    with self.assertRaisesRegex(ValueError, r'success is \(3, 2\), not \(3, 3\)'):
      cells.check(cell(), out | {'curve/success': out['curve/success'][:, :2]})

  def test_write_leaves_the_old_file_when_it_fails(self):
    folder = fake_runner.folder(self)
    cells.write(folder / 'a.csv', 'old\n')
    with self.assertRaises(UnicodeEncodeError):
      cells.write(folder / 'a.csv', '\ud800')
    self.assertEqual((folder / 'a.csv').read_text(), 'old\n')

  def test_lock(self):
    folder = fake_runner.folder(self)
    first, second = locks.Lock(folder, 'x'), locks.Lock(folder, 'x')
    self.assertTrue(first.take())
    self.assertFalse(second.take())
    first.free()
    self.assertTrue(locks.Lock(folder, 'x').take())


class OrderTest(absltest.TestCase):

  def test_groups_stay_together_and_the_longest_start_first(self):
    plan = {f'{g}{i}': cell(mode=g, cost=c) for g, c in (('a', 1), ('b', 4), ('c', 2), ('d', 1))
            for i in range(2)}  # costs 2, 8, 4, 2: two workers of 8
    first, second = launch.order(plan, 2)
    self.assertEqual(first[:2], ['b0', 'b1'])
    self.assertEqual(second[:2], ['c0', 'c1'])
    self.assertCountEqual(first, plan)
    self.assertCountEqual(second, plan)

  def test_one_group_is_split_when_it_is_all_there_is(self):
    plan = {f'a{i}': cell(cost=1) for i in range(4)}
    first, second = launch.order(plan, 2)
    self.assertEqual((first[:2], second[:2]), (['a0', 'a1'], ['a2', 'a3']))
    self.assertEqual(first[2], second[1])  # an idle worker takes what its owner reaches last

  def test_no_program_is_compiled_twice_where_there_is_other_work(self):
    workdir = fake_runner.folder(self)
    plan = {'short': cell(scalars={'task.horizon': 2}), 'long': cell(scalars={'task.horizon': 8}),
            'other': cell(setting='4')}
    names = list(plan)
    taker = worker.Worker(dict(
        workdir=str(workdir), launch='x', runner='tests.fake_runner:run', order=[names],
        cells={k: v.to_json() for k, v in plan.items()}), 0, 1)
    self.assertEqual(taker.take(names)[0], 'short')
    held = locks.Lock(workdir, 'short')
    self.assertTrue(held.take())
    self.assertEqual(taker.take(names)[0], 'other')
    self.assertEqual(taker.take(['short', 'long'])[0], 'long')  # nothing else is left
    held.free()


class LaunchTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.workdir = fake_runner.folder(self)

  def elsewhere(self, plan, workdir, *, processes):
    """A launcher in another process."""
    code = ('import json, pathlib, sys; from scripts import cells, launch; '
            'plan = {k: cells.Cell.from_json(c) for k, c in json.loads(sys.argv[1]).items()}; '
            'failed = launch.run(plan, pathlib.Path(sys.argv[2]), processes=int(sys.argv[3]), '
            f'runner={RUNNER!r}); sys.exit(bool(failed))')
    data = json.dumps({k: c.to_json() for k, c in plan.items()})
    return subprocess.Popen([sys.executable, '-c', code, data, str(workdir), str(processes)],
                            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

  def launch(self, *listed, processes=2):
    self.plan = launch.make_plan(listed)
    return launch.run(self.plan, self.workdir, processes=processes, runner=RUNNER)

  def log(self):
    return sorted(' '.join(x.split()[:2]) for x in (self.workdir / 'log').read_text().splitlines())

  def test_failures_are_recorded_and_the_rest_goes_on(self):
    listed = [cell('raises', mode='raise'), cell('dies', mode='die'), cell('nan', mode='nan'),
              cell('base'), cell('up')]
    failed = self.launch(*listed)
    self.assertEqual(cells.collect(self.workdir, self.plan), 2)
    reasons = {k.split('.')[0]: v for k, v in failed.items()}
    self.assertEqual(reasons['raises'], 'RuntimeError: the loss is not finite')
    self.assertIn('SIGKILL', reasons['dies'])
    self.assertIn('not finite', reasons['nan'])
    self.assertLen(failed, 3)
    # The next launch tries failed cells again and leaves the finished ones alone.
    healed = [dataclasses.replace(c, group='') for c in listed]
    self.assertEqual(self.launch(*healed), {})
    self.assertEqual(self.log(), sorted(f'{c.arm} 8' for c in listed))

  def test_launches_of_one_second_have_names_of_their_own(self):
    plan = launch.make_plan([cell()])
    with mock.patch.object(launch.time, 'strftime', return_value='20260101-000000'):
      names = {launch.Launcher(plan, self.workdir, 1, RUNNER).launch for _ in range(3)}
    self.assertLen(names, 3)

  def test_workers_that_cannot_start(self):
    self.plan = launch.make_plan([cell()])
    failed = launch.run(self.plan, self.workdir, processes=1, runner='tests.nowhere:run')
    self.assertRegex(list(failed.values())[0], "could not start: .*tests.nowhere")

  def test_a_changed_config_is_another_cell(self):
    self.launch(cell(), processes=1)
    self.launch(dataclasses.replace(cell(), overrides={'task.horizon': 6}), processes=1)
    self.assertEqual(self.log(), ['base 8', 'base 8'])

  def test_two_launchers_share_the_work(self):
    plan = launch.make_plan([cell(f'arm{i}', mode='pause') for i in range(8)])
    other = self.elsewhere(plan, self.workdir, processes=1)
    while not list((self.workdir / 'cells').glob('*.lock')):
      time.sleep(0.02)
    self.assertEqual(launch.run(plan, self.workdir, processes=1, runner=RUNNER), {})
    self.assertEqual(other.wait(60), 0)
    self.assertEqual(self.log(), sorted(f'{c.arm} 8' for c in plan.values()))
    workers = {x.split()[-1] for x in (self.workdir / 'log').read_text().splitlines()}
    self.assertLen(workers, 2)

  def test_interrupt_ends_the_workers_and_keeps_what_is_done(self):
    plan = launch.make_plan([cell('base'), cell('slow', mode='slow')])
    process = self.elsewhere(plan, self.workdir, processes=2)
    while not ((self.workdir / 'once-slow-8').exists()
               and cells.result_path(self.workdir, cells.cell_id(cell('base'))).exists()):
      time.sleep(0.05)
    for _ in range(2):  # as `timeout` does
      process.send_signal(signal.SIGTERM)
      time.sleep(0.1)
    process.wait(20)
    self.assertEqual(launch.run(plan, self.workdir, processes=1, runner=RUNNER), {})
    self.assertEqual(self.log(), ['base 8', 'slow 8'])


class SweepTest(absltest.TestCase):
  """The whole command, on the quickstart experiment."""

  def here(self, workdir, *, processes):
    """A sweep started by this process: exit code and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
      code = experiment.run('quickstart', 'smoke', workdir, processes=processes, runner=RUNNER)
    return code, printed.getvalue()

  def without_commit(self, data):
    """Someone may commit while this test runs; that is all that may differ."""
    return re.sub(rb'\b[0-9a-f]{40}(\+changes)?', b'', data)

  def test_interrupted_and_continued_is_the_same_to_the_byte(self):
    folder = fake_runner.folder(self)
    with contextlib.redirect_stderr(io.StringIO()) as live:
      straight, text = self.here(folder / 'a', processes=2)
    self.assertRegex(live.getvalue(), r'cells 12/12 \| runs 24/24 \| 100% \| [\d.]+ steps/s')
    self.assertEqual(straight, 0)
    self.assertIn('is not distinguishable from grpo', text)

    # Kill the launcher once some cells are done.
    process = subprocess.Popen(command(folder / 'b', '--processes=1'), cwd=ROOT,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list((folder / 'b' / 'cells').glob('*.json')):
      time.sleep(0.02)
    process.kill()
    process.wait()
    self.assertFalse((folder / 'b' / 'results.csv').exists())
    self.assertEqual(self.here(folder / 'b', processes=1), (0, text.replace('/a:', '/b:')))
    for name in experiment.FILES:
      a, b = ((folder / x / name).read_bytes() for x in 'ab')
      self.assertEqual(self.without_commit(a), self.without_commit(b), name)
    self.assertLen((folder / 'b' / 'log').read_text().splitlines(), 12)

  def test_figures(self):
    folder = fake_runner.folder(self)
    made = subprocess.run(
        command(folder / 'runs', f'--out={folder / "out"}', module='scripts.figures',
                name='--name=quickstart'), cwd=ROOT, text=True, capture_output=True)
    self.assertEqual(made.returncode, 0, made.stderr)
    self.assertCountEqual(os.listdir(folder / 'out'), experiment.FILES)
    wrong = subprocess.run([sys.executable, '-m', 'scripts.figures', '--name=quikstart'], cwd=ROOT,
                           text=True, capture_output=True)
    self.assertEqual(wrong.returncode, 2)
    self.assertEqual(wrong.stderr, "figures: no experiment 'quikstart': did you mean 'quickstart'? "
                     'See --help.\n')


if __name__ == '__main__':
  absltest.main()
