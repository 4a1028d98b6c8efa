"""Both sandboxes on this machine: reference solutions, attacks, limits, and refusal.

A sandbox that cannot be had here skips its tests and says why.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized

from grpo.verify import assault
from grpo.verify import attacks
from grpo.verify import bubble
from grpo.verify import code
from grpo.verify import filters
from grpo.verify import humaneval
from grpo.verify import monty
from grpo.verify import plain
from grpo.verify import probe
from grpo.verify import sandbox

SECONDS = 0.8  # of an attack; several use all of it


def opened(test: absltest.TestCase, name: str, **limits):
  """The sandbox, closed after the test; skips the test where there is none."""
  try:
    box = code.choose(name, sandbox.Limits(**limits), workers=2)
  except sandbox.Unsafe as error:
    test.skipTest(str(error))
  test.addCleanup(box.close)
  return box


def outcome(box, program, *args):
  """What f(*args) returns, or the kind of failure."""
  try:
    with box.session(program, 'f') as call:
      return call(*args)
  except sandbox.Failure as failure:
    return failure.kind


class SandboxTest(parameterized.TestCase):

  @parameterized.parameters(('bubblewrap', 164), ('monty', 162))
  def test_reference_solutions(self, name, at_least):
    try:
      problems = humaneval.problems()
    except ValueError as error:
      self.skipTest(str(error))
    box = opened(self, name, seconds=10.0)
    jobs = [code.Job(p.prompt + p.solution, p.entry, humaneval.tests(p)) for p in problems]
    self.assertLen(jobs, 164)
    self.assertTrue(all(job.tests for job in jobs))
    graded = code.grade(box, jobs)
    failed = [(p.name, g.reason) for p, g in zip(problems, graded) if not g.all]
    self.assertLessEqual(len(failed), 164 - at_least, failed)

  def test_a_constant_solves_no_problem(self):
    try:
      problems = humaneval.problems()
    except ValueError as error:
      self.skipTest(str(error))
    box = opened(self, 'monty', seconds=10.0)
    graded = code.grade(box, [code.Job(f'{p.prompt}    return True\n', p.entry, humaneval.tests(p))
                              for p in problems])
    self.assertEmpty([p.name for p, g in zip(problems, graded) if g.all])
    self.assertTrue(any(any(g.passed) for g in graded))  # some of their tests, they do

  @parameterized.parameters('bubblewrap', 'monty')
  def test_attacks_earn_nothing_and_harm_nothing(self, name):
    box = opened(self, name, seconds=SECONDS)
    report = assault.run(box)
    self.assertGreaterEqual(len(report.outcomes), 40)
    self.assertEmpty([o for o in report.outcomes if o.earned])
    self.assertEqual(report.harm, ())
    self.assertEqual(report.honest, 1.0)  # neighbours of attacks get what is theirs
    self.assertLess(report.seconds, report.bound)
    box.ready()
    self.assertEqual(outcome(box, attacks.HONEST, 7), 9)

  @parameterized.parameters('bubblewrap', 'monty')
  def test_data_passes_both_ways(self, name):
    box = opened(self, name)
    values = [None, True, 3, -0.0, float('inf'), 10 ** 30, 'é\n', b'\xff', [1, [2]], (1, (2,)),
              {1, 2}, frozenset([3]), {'a': [1], (1, 2): {3: 4}}, 1j]
    with box.session('def f(x):\n  return [x, (x,)]\n', 'f') as call:
      for value in values:
        got = call(value)
        self.assertEqual(repr(got), repr([value, (value,)]))
      with self.assertRaises(plain.NotPlain):
        call(object())

  @parameterized.parameters('bubblewrap', 'monty')
  def test_failures_have_kinds(self, name):
    box = opened(self, name, seconds=SECONDS, calls=3)
    self.assertEqual(outcome(box, 'def f(n): return 1 / n', 0), 'raised')
    self.assertEqual(outcome(box, 'def f(n:', 0), 'raised')
    self.assertEqual(outcome(box, 'def g(n): return n', 0), 'raised')
    self.assertEqual(outcome(box, 'def f(n): return n, len', 0), 'not plain')
    self.assertEqual(outcome(box, '#' * 200_000, 0), 'length')
    start = time.monotonic()
    self.assertEqual(outcome(box, 'def f(n):\n  while True: pass', 0), 'time')
    self.assertLess(time.monotonic() - start, SECONDS + 2.0)
    with self.assertRaisesRegex(sandbox.Failure, 'calls'):
      with box.session(attacks.HONEST, 'f') as call:
        for n in range(4):
          call(n)

  @parameterized.parameters('bubblewrap', 'monty')
  def test_nothing_is_left_for_the_next_program(self, name):
    box = opened(self, name)
    leave = """
import sys
left = 1
try: sys.left = 1
except Exception: pass
def f(n):
  global more
  more = n
"""
    outcome(box, leave, 1)
    for name in ('left', 'more', 'sys.left'):
      self.assertEqual(outcome(box, f'import sys\ndef f(n): return {name}\n', 1), 'raised')

  @parameterized.parameters('bubblewrap', 'monty')
  def test_state_stays_within_a_program(self, name):
    box = opened(self, name)
    with box.session('seen = []\ndef f(n):\n  seen.append(n)\n  return seen\n', 'f') as call:
      call(1)
      self.assertEqual(call(2), [1, 2])

  def test_hard_coding_passes_shown_tests_and_no_others(self):
    box = opened(self, 'auto')
    tests = attacks.tests()
    programs = attacks.programs(1, 1, '')
    shown, every = (code.grade(box, [code.Job(programs['hardcode/shown'], 'f', t)])[0]
                    for t in (tests[:len(attacks.SHOWN)], tests))
    self.assertTrue(shown.all)
    self.assertFalse(every.all)


class BubbleTest(absltest.TestCase):

  def test_what_is_inside(self):
    box = opened(self, 'bubblewrap')
    look = """
import os, sys
def f():
  return (sorted(os.listdir('/')), sorted(os.environ), os.getuid(), os.listdir('/app/grpo/verify'),
          [p for p in sys.path if 'packages' in p], os.getcwd())
"""
    root, environment, user, files, packages, folder = outcome(box, look)
    self.assertEmpty({'proc', 'dev', 'tmp', 'etc', 'home', 'work', 'sys', 'var'} & set(root))
    self.assertEqual(environment, ['LC_ALL', 'LD_LIBRARY_PATH', 'PWD', 'PYTHONHASHSEED',
                                   'PYTHONPATH'])
    self.assertEqual((user, packages, folder), (65534, [], '/'))
    self.assertCountEqual(files, bubble.FILES)
    here = os.path.dirname(os.path.abspath(__file__))
    self.assertEqual(outcome(box, 'import os\ndef f(p): return os.path.exists(p)', here), False)

  def test_no_other_system_call_gets_through(self):
    box = opened(self, 'bubblewrap')
    import pyseccomp
    allowed = {*filters.PLAIN, 'open', 'openat', 'prlimit64', 'fcntl', 'ioctl'}
    others = []
    for number in range(512):
      try:
        name = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, number)
      except ValueError:  # this machine has no such call
        continue
      if name.decode() not in allowed:
        others.append(number)
    self.assertGreater(len(others), 200)
    program = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def f(numbers):
  return [(n, ctypes.get_errno()) for n in numbers if libc.syscall(n, 0, 0, 0, 0, 0, 0) != -1
          or ctypes.get_errno() not in (1, 38)]
def write(path, flags):
  return libc.openat(-100, path, flags)
"""
    self.assertEqual(outcome(box, program, others), [])
    with box.session(program, 'write') as call:
      self.assertGreater(call(b'/app/grpo/__init__.py', os.O_RDONLY), 2)
      for flags in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_APPEND, os.O_TMPFILE):
        self.assertEqual(call(b'/app/grpo/__init__.py', flags), -1)

  def test_a_server_that_ends_is_started_again(self):
    box = opened(self, 'bubblewrap')
    box._process.kill()
    box._process.wait()
    self.assertEqual(outcome(box, attacks.HONEST, 7), 'server')
    graded = code.grade(box, [code.Job(attacks.HONEST, 'f', attacks.tests())])
    self.assertTrue(graded[0].all)

  def test_processes_end_with_us(self):
    opened(self, 'bubblewrap')
    program = """
import os, pathlib
from grpo.verify import bubble
box = bubble.Bubble()
with box.session('def f():\\n  while True: pass', 'f') as call:
  parents, found = {}, {box._process.pid}
  for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
    try:
      parents[int(stat.parent.name)] = int(stat.read_text().rsplit(')', 1)[1].split()[1])
    except OSError:
      pass
  while grown := {pid for pid, parent in parents.items() if parent in found} - found:
    found |= grown
  print(*found, flush=True)
  os._exit(0)
"""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    run = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True,
                         check=True, env=dict(os.environ,
                                              PYTHONPATH=os.pathsep.join([root, *sys.path])))
    pids = [int(pid) for pid in run.stdout.split()]
    self.assertGreaterEqual(len(pids), 4)  # bubblewrap twice, the server, the program
    deadline = time.monotonic() + 10
    alive = lambda: [pid for pid in pids if os.path.exists(f'/proc/{pid}')]
    while alive() and time.monotonic() < deadline:
      time.sleep(0.05)
    self.assertEmpty(alive())


class MontyTest(absltest.TestCase):

  def test_a_worker_that_ends_is_replaced(self):
    box = opened(self, 'monty')
    job = code.Job(attacks.HONEST, 'f', attacks.tests())
    for stat in pathlib.Path('/proc').glob('[0-9]*/stat'):
      with contextlib.suppress(OSError):
        name, rest = stat.read_text().split('(', 1)[1].rsplit(')', 1)
        if name == 'monty' and int(rest.split()[1]) == os.getpid():
          os.kill(int(stat.parent.name), signal.SIGKILL)
    self.assertEqual([g.reason for g in code.grade(box, [job] * 3)], ['right'] * 3)

  def test_a_worker_that_does_not_stop_is_killed(self):
    box = opened(self, 'monty')
    box._pool.__exit__(None, None, None)
    box._pool = box._monty.Monty(max_processes=1, request_timeout=0.3)
    box._pool.__enter__()
    jobs = [code.Job(program, 'f', attacks.tests())
            for program in ('def f(n):\n  while True: pass', attacks.HONEST)]
    self.assertEqual([g.reason for g in code.grade(box, jobs)], ['time', 'right'])


class RefusalTest(absltest.TestCase):

  def test_a_box_that_leaks_is_refused(self):
    box = opened(self, 'auto')
    with mock.patch.dict(probe.ACTS, harmless='x = 1'):
      with self.assertRaisesRegex(sandbox.Unsafe, 'a program could do harmless'):
        probe.check(box)

  def test_no_sandbox_no_run(self):
    absent = mock.Mock(side_effect=sandbox.Unsafe('not installed'))
    with mock.patch.object(bubble, 'Bubble', absent), mock.patch.object(monty, 'Monty', absent):
      with self.assertRaisesRegex(sandbox.Unsafe, 'so no program is run: not installed; not'):
        code.choose('auto')

  def test_bubblewrap_is_missing(self):
    with mock.patch.object(bubble.shutil, 'which', return_value=None):
      with self.assertRaisesRegex(sandbox.Unsafe, 'no bwrap in PATH|Linux only'):
        bubble.Bubble()

  def test_auto_takes_the_other(self):
    opened(self, 'monty').close()
    with mock.patch.object(bubble.shutil, 'which', return_value=None):
      with self.assertWarnsRegex(UserWarning, 'monty in place of another sandbox: bubblewrap'):
        box = code.choose('auto')
    self.addCleanup(box.close)
    self.assertEqual(box.name, 'monty')


if __name__ == '__main__':
  absltest.main()
