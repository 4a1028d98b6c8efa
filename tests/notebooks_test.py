"""Every notebook runs from top to bottom, on small results made here."""

import json
import os
import pathlib
from unittest import mock

from absl.testing import absltest
import nbclient
import nbformat
import pytest

from grpo import tasks
from scripts import cells
from scripts import experiment
from scripts import launch
from tests import fake_runner

ROOT = pathlib.Path(__file__).resolve().parents[1]


def results(folder):
  """results.csv and curves.csv of the quickstart, without training."""
  plan = launch.make_plan(experiment.experiment('quickstart').cells('smoke'))
  for name, cell in plan.items():
    data = cells.check(cell, fake_runner.result(cell)) | dict(
        commit='0' * 40, versions='none', config_hash='none', timing=dict(seconds=0.0, cores=1))
    cells.write(cells.result_path(folder, name), json.dumps(data))
  cells.collect(folder, plan)


def run(name, folder):
  """Executes a notebook in the root of the repository; returns all that it printed."""
  notebook = nbformat.read(ROOT / 'notebooks' / name, as_version=4)
  nbformat.validate(notebook)
  path = os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')])
  with mock.patch.dict(os.environ, GRPO_RESULTS=str(folder), PYTHONPATH=path):
    nbclient.NotebookClient(notebook, timeout=300, kernel_name='python3',
                            resources=dict(metadata=dict(path=str(ROOT)))).execute()
  outputs = [o for c in notebook.cells if c.cell_type == 'code' for o in c.outputs]
  text = ''.join(o.get('text', '') for o in outputs)
  return text, [o for o in outputs if 'image/png' in o.get('data', {})]


class NotebooksTest(absltest.TestCase):

  def test_quickstart(self):
    folder = fake_runner.folder(self)
    results(folder)
    text, images = run('quickstart.ipynb', folder)
    self.assertIn('24 runs of 4 arms', text)
    self.assertIn('sao is not distinguishable from grpo', text)
    self.assertIn('8 seeds: unpaired 1.5, paired 1.2', text)
    self.assertLen(images, 1)

  @pytest.mark.slow
  def test_tasks(self):
    text, _ = run('tasks.ipynb', fake_runner.folder(self))
    self.assertIn('success of this player, exactly: 0.648', text)
    self.assertGreaterEqual(text.count('V = '), 8)
    self.assertIn('(expert: ', text)
    self.assertIn('correction ', text)
    self.assertIn('pinned check-first lab-first', text)
    for name in tasks.__all__:
      self.assertTrue(name in ('horizon', 'ladder', 'sokoban') or f'{name}\n' in text, name)

  def test_credit(self):
    text, images = run('credit.ipynb', ROOT / 'experiments')
    self.assertRegex(text, r'group z-score \(GRPO\) +0\.969')
    self.assertRegex(text, r'exact critic, lambda 1 +-0\.5')
    self.assertLen(images, 2)

  def test_results_of_a_sweep_and_of_a_computation(self):
    for name, score in (('quickstart', 'success_last by arm'), ('stragglers', 'mean by sigma')):
      text, images = run('results.ipynb', ROOT / 'experiments' / name)
      self.assertIn(score, text)
      self.assertLen(images, 1)

  def test_without_results_it_says_what_to_do(self):
    notebook = nbformat.read(ROOT / 'notebooks' / 'quickstart.ipynb', as_version=4)
    code = [c.source for c in notebook.cells if c.cell_type == 'code']
    with mock.patch.dict(os.environ, GRPO_RESULTS=str(fake_runner.folder(self))):
      with self.assertRaisesRegex(SystemExit, 'No results in .*Run the'):
        exec('\n'.join(code[:2]), {})

  def test_notebooks_are_stored_without_outputs(self):
    for path in (ROOT / 'notebooks').glob('*.ipynb'):
      for cell in nbformat.read(path, as_version=4).cells:
        self.assertEmpty(cell.get('outputs', []), path.name)


if __name__ == '__main__':
  absltest.main()
