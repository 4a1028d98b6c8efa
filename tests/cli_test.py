"""Tests of scripts/cli.py: bad input is one helpful line and exit code 2; faults keep traces."""

import os
import pathlib
import subprocess
import sys
import tempfile

from absl.testing import absltest
from absl.testing import parameterized

from scripts import cli

ROOT = pathlib.Path(__file__).resolve().parents[1]

PROGRAM = '''
from absl import flags
from scripts import cli
CONFIG = cli.config_flag('{config}')
COUNT = flags.DEFINE_integer('count', 1, 'How many.')
HOW = flags.DEFINE_string('how', '', 'How to fail.')
def main(argv):
  if HOW.value == 'library':
    import numpy as np
    np.zeros(3).reshape(2)
  if HOW.value == 'own':
    cli.load('nope.py')
  if HOW.value == 'disk':
    raise OSError(28, 'No space left on device', '/full/results.csv')
  if HOW.value == 'bug':
    return dict()['missing']
  print('ran', COUNT.value, CONFIG.value.method.surrogate.high, CONFIG.value.steps)
if __name__ == '__main__':
  cli.run(main)
'''

CONFIG = '''
import ml_collections
def get_config(size='small'):
  if size != 'small':
    raise ValueError(f'config size {size!r}: allowed is small')
  c = ml_collections.ConfigDict(dict(steps=3, learning_rate=0.1, data=dict(train=dict(name='a'))))
  c.method = ml_collections.ConfigDict(dict(surrogate=dict(name='clip', high=0.2)))
  return c
'''


class CliTest(parameterized.TestCase):

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.folder = tempfile.TemporaryDirectory()
    folder = pathlib.Path(cls.folder.name)
    (folder / 'variant.py').write_text(CONFIG)
    (folder / 'variant.txt').write_text(CONFIG)
    (folder / 'broken.py').write_text('import os\nprint(\n')
    cls.config = folder / 'variant.py'
    cls.program = folder / 'program.py'
    cls.program.write_text(PROGRAM.format(config=f'{cls.config}:small'))

  @classmethod
  def tearDownClass(cls):
    cls.folder.cleanup()
    super().tearDownClass()

  def call(self, *arguments):
    env = dict(os.environ, PYTHONPATH=str(ROOT))
    return subprocess.run([sys.executable, str(self.program), *arguments], env=env, text=True,
                          capture_output=True)

  def test_good_input(self):
    out = self.call('--count=2', '--config.method.surrogate.high=0.28', '--config.steps=5')
    self.assertEqual((out.returncode, out.stdout), (0, 'ran 2 0.28 5\n'), out.stderr)

  def test_help_is_no_error(self):
    out = self.call('--help')
    self.assertEqual(out.returncode, 0)
    self.assertIn('--count', out.stdout)

  def test_help_has_flags_of_other_modules(self):
    out = subprocess.run([sys.executable, '-m', 'scripts.sweep', '--help'], cwd=cli.ROOT, text=True,
                         capture_output=True)
    for name in ('experiment', 'workdir', 'processes', 'launcher'):
      self.assertIn(f'--{name}:', out.stdout)

  @parameterized.parameters(
      ('--cuont=2', 'mean: count'),
      ('--count=two', '--count=two'),
      ('extra', "'extra'"),
      ('--config.learning_rat=1e-4', '--config.learning_rate'),
      ('--config.data.name=b', '--config.data.train.name'),
      ('--config.method.surrogate.hihg=0.3', '--config.method.surrogate.high'),
      ('--config.steps=many', '--config.steps=many'),
      ('--config.method.surrogate=dis', 'group of fields: .* --config.method.surrogate.name=dis'),
      ('--config=varient.py', "did you mean '.*variant.py'"),
      ('--config=variant.py:huge', "size 'huge': allowed is small"),
      ('--config=nope.py', 'no config file .*nope.py\': known are .*variant.py'),
      ('--config=variant', "did you mean '.*variant.py'"),
      ('--config=variant.txt', r'needs to be a .py file that defines get_config; it ends in .*txt'),
      ('--config=program.py', 'program.py: needs to be a .py .*; it does not define it'),
      ('--config=broken.py', "needs to be a .py .*; line 2: '\\(' was never closed"),
      ('--how=own', "no config file 'nope.py'"),
      ('--how=disk', '^program: /full/results.csv: No space left on device'),
  )
  def test_bad_input(self, argument, hint):
    argument = argument.replace('config=', f'config={self.folder.name}/')
    out = self.call(argument)
    self.assertEqual(out.returncode, 2, out.stderr)
    self.assertEqual(out.stderr.count('\n'), 1, out.stderr)
    self.assertRegex(out.stderr, hint)
    self.assertEqual(out.stdout, '')

  def test_bad_field_of_a_config_that_is_not_the_default(self):
    out = self.call(f'--config={self.config}:small', '--config.learning_rat=1')
    self.assertEqual(out.returncode, 2, out.stderr)
    self.assertRegex(out.stderr, r'^program: no field .*--config.learning_rate\. See --help\.\n$')

  @parameterized.parameters(('library', 'cannot reshape'), ('bug', 'KeyError'))
  def test_faults_keep_their_traceback(self, how, text):
    out = self.call(f'--how={how}')
    self.assertEqual(out.returncode, 1)
    self.assertIn('Traceback', out.stderr)
    self.assertIn(text, out.stderr)

  @parameterized.parameters(
      ('configs/gpro.py', r"did you mean 'configs/grpo\.py'"),
      ('grpo.py', r"did you mean 'configs/grpo\.py'"),
      ('configs', r'.*configs/\w+\.py'),
      ('configs/zzzz.py', r'known are .*configs/grpo\.py'))
  def test_nearest_config_is_that_of_the_stem(self, spec, hint):
    with self.assertRaisesRegex(cli.UsageError, f"^no config file '{spec}': {hint}"):
      cli.load(spec)

  @parameterized.parameters(
      ('train.steps', r'nearest: --config\.steps, --config\.clone\.steps'),
      ('task.wrong_at', 'needs the third word of a config, as in .*SIZE,TASK,interventions'),
      ('wrong_at', 'needs the third word of a config'))
  def test_nearest_field(self, path, hint):
    with self.assertRaisesRegex(cli.UsageError, f'^no field --config.{path}.*{hint}'):
      cli.check_path(cli.load('configs/grpo.py:smoke,line'), path)

  def test_unknown_lists_all_when_nothing_is_near(self):
    self.assertEqual(str(cli.unknown('arm', 'zzz', ['b', 'a'])), "no arm 'zzz': known are a, b")
    self.assertEqual(str(cli.unknown('experiment', 'nosuch', ['knobs', 'snr'])),
                     "no experiment 'nosuch': known are knobs, snr")

  def test_a_worker_says_what_it_is(self):
    call = lambda *more: subprocess.run([sys.executable, '-m', 'scripts.worker', *more],
                                        cwd=cli.ROOT, text=True, capture_output=True)
    out = call('--help')
    self.assertEqual((out.returncode, out.stderr), (0, ''))
    self.assertIn('python -m scripts.sweep', out.stdout)
    out = call()
    self.assertEqual((out.returncode, out.stdout), (2, ''))
    self.assertRegex(out.stderr, r'^worker: needs PLAN.json and INDEX; .*\n$')


if __name__ == '__main__':
  absltest.main()
