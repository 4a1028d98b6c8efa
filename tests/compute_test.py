"""Experiments that are computed: what runs, what is reused, what is refused, what is committed."""

import contextlib
import io
import os
import pathlib
import sys
import types
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import matplotlib.figure

from grpo.study import frames
from scripts import cli
from scripts import compute
from scripts import experiment
from scripts import figures
from scripts import many
from scripts import workers
from tests import fake_runner

COMMITTED = [name for name in compute.names()
             if (cli.ROOT / 'experiments' / name / 'results.csv').exists()]


class ComputeTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = fake_runner.folder(self)
    self.calls = []

    def rows(size, progress):
      self.calls.append(size)
      progress(1, 1)
      return [dict(arm='a', value=0.1), dict(arm='b', more=2)]

    figure = lambda folder: matplotlib.figure.Figure(figsize=(1, 1))
    module = types.SimpleNamespace(rows=rows, figure=figure)
    for target, new in (('part', lambda name, kind: module),
                        ('code_hash', lambda name: self.code)):
      patch = mock.patch(f'scripts.compute.{target}', new)
      patch.start()
      self.addCleanup(patch.stop)
    self.code = 'one'

  def run_it(self, workdir='w', out='w', **options):
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.redirect_stderr(
        io.StringIO()):
      code = compute.run('fake', 'smoke', self.folder / workdir, self.folder / out, **options)
    self.assertEqual(code, 0)
    return text.getvalue()

  def test_computes_once(self):
    self.run_it()
    self.run_it()
    self.assertEqual(self.calls, ['smoke'])
    rows = frames.read(self.folder / 'w' / 'results.csv')
    self.assertEqual([r['value'] == r['value'] for r in rows], [True, False])
    self.assertEqual({(r['experiment'], r['size'], r['code']) for r in rows},
                     {('fake', 'smoke', 'one')})
    self.assertTrue((self.folder / 'w' / 'figure.png').exists())
    self.assertCountEqual([p.name for p in (self.folder / 'w').iterdir()], compute.FILES)

  def test_other_code_or_force_compute_again(self):
    self.run_it()
    self.code = 'two'
    self.run_it()
    self.run_it(force=True)
    self.assertLen(self.calls, 3)

  def test_committed_results_will_do(self):
    self.run_it(out='out')
    self.code = 'two'
    text = self.run_it('elsewhere', 'out')
    self.assertIn('by other code than that of today; --force', text)
    self.run_it('elsewhere', 'out', committed=False)
    self.assertLen(self.calls, 2)
    self.assertIn('two', (self.folder / 'out' / 'results.csv').read_text())

  def test_rows_of_several_codes_are_of_none(self):
    self.run_it(out='out')
    path = self.folder / 'out' / 'results.csv'
    head, *rows = path.read_text().splitlines()
    later = [row.replace(self.code, 'later') for row in rows]
    path.write_text('\n'.join([head, *rows, *later]) + '\n')
    self.assertEqual(compute.identity(path)[2], f'{self.code} later')
    self.assertIn('by other code than that of today', self.run_it('elsewhere', 'out'))

  @parameterized.parameters(('a,b\n1,2\n', 'holds no results of a computed'),
                            ('experiment,size,code\nx,smoke,c\n', 'holds the experiment x, not'),
                            ('experiment,size,code\nx,s,c\ny,s,c\n', 'mixes results'))
  def test_foreign_folders_are_refused(self, text, message):
    (self.folder / 'w').mkdir()
    (self.folder / 'w' / 'results.csv').write_text(text)
    with self.assertRaisesRegex(cli.UsageError, message):
      self.run_it()
    self.assertEqual((self.folder / 'w' / 'results.csv').read_text(), text)

  @parameterized.parameters(([], 'gave no rows'), ([dict(size='x')], 'size is set by the command'),
                            ([dict(x=float('inf'))], 'x is inf'), ([dict(x=[1])], r'x is \[1\]'))
  def test_bad_rows(self, rows, message):
    with self.assertRaisesRegex(ValueError, message):
      compute.check_rows('fake', rows)


class AllTest(absltest.TestCase):

  def setUp(self):
    super().setUp()
    self.folder = fake_runner.folder(self)

  def python(self, code):
    return [sys.executable, '-c', code]

  def test_one_that_fails_is_named_and_the_others_go_on(self):
    failed = many.run(dict(
        a=self.python('print("well")'), b=self.python('print("x"); raise ValueError("no way")'),
        c=self.python('import os; os.kill(os.getpid(), 9)'), d=self.python('print("done")')),
                      jobs=2, logs=self.folder)
    self.assertEqual(failed, dict(b='exit code 1: ValueError: no way', c='ended by SIGKILL'))
    self.assertEqual((self.folder / 'd.log').read_text(), 'done\n')

  def test_commands_share_the_cores(self):
    cores = sorted(os.sched_getaffinity(0))
    tell = self.python('import os; print(sorted(os.sched_getaffinity(0)), '
                       'os.environ["GLIBC_TUNABLES"])')
    self.assertEqual(many.run(dict(a=tell), jobs=9, logs=self.folder), {})
    self.assertIn(str(cores), (self.folder / 'a.log').read_text())
    names = [f'n{i}' for i in range(2 * len(cores))]
    self.assertEqual(many.run(dict.fromkeys(names, tell), jobs=99, logs=self.folder), {})
    seen = {(self.folder / f'{name}.log').read_text().split(']')[0] for name in names}
    self.assertTrue(all(text.count(',') == 0 for text in seen), seen)

  def test_all_does_each_in_a_folder_of_its_own(self):
    flag = lambda name, value: types.SimpleNamespace(name=name, value=value)
    given = dict(_NAME=flag('name', 'all'), _SIZE=flag('size', 'smoke'), _OUT=flag('out', None),
                 _WORKDIR=flag('workdir', str(self.folder)), _FORCE=flag('force', True))
    cores = len(os.sched_getaffinity(0))
    asked = dict(processes=lambda: 99, local=lambda: True, again=lambda n: [f'--processes={n}'],
                 asked=dict)
    (self.folder / 'entropy').touch()  # in the way
    with mock.patch.multiple(figures, **given), mock.patch.multiple(workers, **asked), \
        mock.patch.object(many, 'run', side_effect=AssertionError('it began')):
      with self.assertRaisesRegex(cli.UsageError, r'--workdir=\S*entropy: .* is in the way'):
        figures.main([])
      (self.folder / 'entropy').unlink()
      with mock.patch.object(workers, 'asked', side_effect=cli.UsageError('no Slurm')):
        with self.assertRaisesRegex(cli.UsageError, 'no Slurm'), contextlib.redirect_stdout(
            io.StringIO()):
          figures.main([])
    with mock.patch.object(many, 'run', return_value=dict(snr='exit code 1: no way')) as run, \
        contextlib.redirect_stdout(io.StringIO()) as text, \
        mock.patch.multiple(figures, **given), mock.patch.multiple(workers, **asked):
      self.assertEqual(figures.main([]), 1)
    commands, jobs, logs = run.call_args.args
    here = {n for n in (*experiment.names(), *compute.names()) if not experiment.lacks(n)}
    self.assertEqual(set(commands), here)
    self.assertEqual((jobs, logs), (cores, self.folder / 'logs'))
    snr = commands['snr']
    self.assertEqual(snr[1:], ['-m', 'scripts.figures', '--name=snr', '--size=smoke',
                               f'--workdir={self.folder}/snr', '--force', '--processes=1'])
    self.assertIn('  snr: exit code 1: no way', text.getvalue())


class CommittedTest(parameterized.TestCase):

  @parameterized.parameters(*COMMITTED)
  def test_figure_is_drawn_from_committed_results(self, name):
    folder = cli.ROOT / 'experiments' / name
    self.assertEqual(compute.identity(folder / 'results.csv')[:2], (name, 'small'))
    plot = compute.part(name, 'plot')
    self.assertGreater(len(plot.figure(folder).axes), 0)
    text = (folder / 'README.md').read_text(encoding='utf-8')
    for heading in ('## Prediction', '## What would falsify it', '## Answer'):
      self.assertIn(heading, text)
    self.assertNotIn('To be written', text)

  def test_there_are_some(self):
    self.assertContainsSubset(['coverage', 'kl_estimators', 'leakage', 'snr', 'stragglers'],
                              COMMITTED)


class FramesTest(absltest.TestCase):

  def test_text_and_back(self):
    rows = [dict(arm='1', x=0.1234567, n=3), dict(arm='b', x=float('nan'), other='text')]
    path = pathlib.Path(fake_runner.folder(self)) / 'x.csv'
    path.write_text(frames.text(rows))
    back = frames.read(path)
    self.assertEqual((back[0]['arm'], back[0]['x'], back[0]['n']), ('1', 0.123457, 3))
    self.assertNotEqual(back[1]['x'], back[1]['x'])
    self.assertLen(frames.where(back, arm=('1', 'c')), 1)
    self.assertEqual(frames.unique(back, 'arm'), [('1',), ('b',)])


if __name__ == '__main__':
  absltest.main()
