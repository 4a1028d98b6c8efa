"""Experiments that are computed: what runs, what is reused, what is refused, what is committed."""

import contextlib
import io
import pathlib
import types
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import matplotlib.figure

from grpo.study import frames
from scripts import cli
from scripts import compute
from scripts import figures
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

  def test_one_that_fails_is_named_and_the_others_go_on(self):
    def one(name, below):
      self.assertEqual(name, below)
      if name == 'b':
        raise ValueError('no\nway')
      return 1 if name == 'c' else 0

    with mock.patch.object(figures, '_one', one), contextlib.redirect_stdout(
        io.StringIO()) as text:
      self.assertEqual(figures._all(['a', 'b', 'c', 'd']), 1)
      self.assertEqual(figures._all(['a', 'd']), 0)
    self.assertIn('2 of 4 experiments are done\n  b: ValueError: no way\n  c: exit code 1',
                  text.getvalue())


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
