"""Tests of what a sweep says while it runs: how far, how long still, on one line."""

import io
import json
from unittest import mock

from absl.testing import absltest

from scripts import cells
from scripts import launch
from scripts import pace
from tests import fake_runner


class PaceTest(absltest.TestCase):

  def test_compilation_is_counted_once(self):
    clock = pace.Clock()
    self.assertIsNone(clock.whole())
    clock.at(60.0, 0.1)  # compiled for 58 seconds
    self.assertIsNone(clock.whole())
    clock.at(62.0, 0.2)
    self.assertAlmostEqual(clock.whole(), 60 + 0.9 * 20)

  def test_left(self):
    idle = dict(cell=None, cost=0, spent=0, whole=None, done=0, seconds=0)
    fresh = idle | dict(cell='a', cost=2, spent=50)
    self.assertIsNone(pace.left([idle, fresh], 4))
    ran = fresh | dict(whole=78, spent=62)
    # 39 seconds a unit of cost: 16 of the cell that runs, 28 of the fresh one, 4 x 39 that wait.
    self.assertAlmostEqual(pace.left([ran, fresh], 4), (16 + 28 + 156) / 2)
    self.assertAlmostEqual(pace.left([ran, fresh], 0), 28)  # the longest that runs
    # Finished cells count: (100 + 78) / (8 + 2) = 17.8 a unit, and the fresh one is late.
    self.assertAlmostEqual(pace.left([ran | dict(done=8, seconds=100), fresh], 1), (16 + 17.8) / 2)

  def test_the_line_moves_within_cells(self):
    plan = launch.make_plan([
        cells.Cell('try', arm, 'horizon', '8', 'configs/grpo.py:smoke,horizon', {}, (0, 1, 2))
        for arm in ('base', 'up')])
    todo = launch.Launcher(plan, fake_runner.folder(self), 1, 'tests.fake_runner:run')
    self.assertRegex(todo._line({}), r'^cells 0/2 \| runs 0/6 \| 0% \| .* compiling, time left unk')
    report = dict(cell=list(todo.plan)[0], fraction=0.5, work=30, cost=1, spent=40, whole=60,
                  done=0, seconds=0)
    cells.write(todo.folder / 'worker-0.json', json.dumps(report))
    self.assertRegex(todo._line({}), r'^cells 0/2 \| runs 0/6 \| 25% \| .* \| 1:20 left$')


class LiveTest(absltest.TestCase):

  def test_plain_lines_are_few_and_the_last_is_shown(self):
    out = io.StringIO()
    live = launch.Live(out)
    for i in range(5):
      live.show(f'line {i}')
    live.show('end', last=True)
    self.assertEqual(out.getvalue(), 'line 0\nend\n')

  def test_terminal_line_is_redrawn(self):
    out = io.StringIO()
    with mock.patch.object(out, 'isatty', lambda: True):
      live = launch.Live(out)
    live.show('one')
    live.show('two', last=True)
    self.assertEqual(out.getvalue(), '\r\x1b[Kone\r\x1b[Ktwo\n')

  def test_clock(self):
    self.assertEqual([launch.clock(x) for x in (0, 59.6, 3723)], ['0:00', '1:00', '1:02:03'])


if __name__ == '__main__':
  absltest.main()
