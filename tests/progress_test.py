"""Tests of the line that says how far a run is, and of signals that stop one."""

import io
import os
import pathlib
import signal
import subprocess
import sys
import threading

from absl.testing import absltest

from grpo.learn import progress
from grpo.learn import signals

ROOT = pathlib.Path(__file__).resolve().parents[1]


class ProgressTest(absltest.TestCase):

  def bar(self, terminal, **kwargs):
    self.now, self.out = 0.0, io.StringIO()
    self.out.isatty = lambda: terminal
    return progress.Progress(100, stream=self.out, clock=lambda: self.now, **kwargs)

  def test_plain_lines_are_few_and_the_last_is_there(self):
    with self.bar(False, every=10) as bar:
      for step in range(1, 101):
        self.now += 1 if step > 1 else 30  # the first step compiles
        bar.update(step, tokens=2000 * step, shown={'reward': 0.12345})
    lines = self.out.getvalue().splitlines()
    self.assertLen(lines, 11)
    self.assertEqual(lines[1], 'step 11/100  11% | 1 steps/s | 2k tokens/s | 1m29s left | '
                               'reward 0.1235')
    self.assertStartsWith(lines[-1], 'step 100/100 100%')

  def test_a_terminal_gets_one_line(self):
    with self.bar(True) as bar:
      for step in (1, 2):
        self.now += 1
        bar.update(step)
      bar.note('saved')
    text = self.out.getvalue()
    self.assertEqual(text.count('\n'), 2)
    self.assertIn('\rstep 2/100   2% | 1 steps/s | 1m38s left', text)

  def test_resumed_run_counts_its_own_steps(self):
    with self.bar(False, start=90, every=0) as bar:
      self.now = 70  # most of which is compilation: nothing is said of the time left
      bar.update(95)
      self.now = 72
      bar.update(96)
    self.assertEqual(self.out.getvalue(), 'step 95/100  95%\n'
                     'step 96/100  96% | 0.5 steps/s | 8s left\n')

  def test_what_goes_on_before_there_are_numbers(self):
    for terminal, want in ((False, 'step 0/100 | cloning\nstep 0/100 | compiling\nstep 5/100   5%\n'
                                   'step 10/100  10% | 2.5 steps/s | 36s left\n'),
                           (True, '\rstep 0/100 | cloning\x1b[K\rstep 0/100 | compiling\x1b[K'
                                  '\rstep 5/100   5%\x1b[K'
                                  '\rstep 10/100  10% | 2.5 steps/s | 36s left\x1b[K\n')):
      with self.bar(terminal, every=2) as bar:
        bar.stage('cloning')
        self.now = 30.0
        bar.stage('compiling')
        self.now = 90.0  # of which training took little
        bar.update(5)
        self.now = 92.0
        bar.update(10)
      self.assertEqual(self.out.getvalue(), want)

  def test_words(self):
    self.assertEqual([progress._short(x) for x in (0.1234, 999.4, 999.6, 12345, 3e9, 3e12)],
                     ['0.123', '999', '1k', '12.3k', '3G', '3e+03G'])
    self.assertEqual([progress._duration(x) for x in (0, 59.6, 185, 7620, 97200)],
                     ['0s', '1m00s', '3m05s', '2h07m', '1d03h'])


class StopTest(absltest.TestCase):

  def test_first_signal_sets_a_flag_and_handlers_come_back(self):
    before = signal.getsignal(signal.SIGTERM)
    with signals.Stop() as stop:
      self.assertFalse(stop)
      os.kill(os.getpid(), signal.SIGTERM)
      self.assertTrue(stop)
      self.assertEqual(stop.signum, signal.SIGTERM)
    self.assertIs(signal.getsignal(signal.SIGTERM), before)

  def test_second_signal_acts(self):
    # A shell's background jobs start with SIGINT ignored, and then a second one must be, too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    self.addCleanup(signal.signal, signal.SIGINT, before)
    with self.assertRaises(KeyboardInterrupt), signals.Stop():
      os.kill(os.getpid(), signal.SIGINT)
      os.kill(os.getpid(), signal.SIGINT)
    code = ('import os, signal\nfrom grpo.learn import signals\nwith signals.Stop():\n'
            '  os.kill(os.getpid(), 15)\n  print("first", flush=True)\n  os.kill(os.getpid(), 15)\n'
            '  print("second")')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=str(ROOT)))
    self.assertEqual((done.returncode, done.stdout), (-signal.SIGTERM, 'first\n'), done.stderr)
    self.assertIn('SIGTERM: saving and stopping', done.stderr)

  def test_other_threads_only_never_stop(self):
    seen = []
    def run():
      with signals.Stop() as stop:
        seen.append(bool(stop))
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    self.assertEqual(seen, [False])


if __name__ == '__main__':
  absltest.main()
