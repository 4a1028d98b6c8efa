"""What the documents tell a reader to run or open exists."""

import pathlib
import re

from absl.testing import absltest

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = sorted([*ROOT.glob('*.md'), *ROOT.glob('experiments/**/*.md'), *ROOT.glob('docs/**/*.md')])


class DocsTest(absltest.TestCase):

  def check(self, pattern: str, path_of):
    """Every match of `pattern` in a document names a path below the root that exists."""
    wrong = []
    for doc in DOCS:
      for match in re.findall(pattern, doc.read_text(encoding='utf-8')):
        if not path_of(doc, match).exists():
          wrong.append(f'{doc.relative_to(ROOT)}: {match}')
    if wrong:
      self.fail('\n'.join(wrong))

  def test_links_lead_somewhere(self):
    self.check(r'\]\((?!https?:|#|mailto:)([^)#\s]+)', lambda doc, path: doc.parent / path)

  def test_scripts_exist(self):
    self.check(r'python -m scripts\.(\w+)', lambda _, name: ROOT / 'scripts' / f'{name}.py')

  def test_configs_exist(self):
    self.check(r'--config=(configs/\w+\.py)', lambda _, path: ROOT / path)

  def test_experiments_exist(self):
    self.check(r'--experiment=(\w+)', lambda _, name: ROOT / 'experiments' / name / 'sweep.py')
    self.check(r'scripts\.figures --name=(\w+)',
               lambda _, name: ROOT / 'experiments' / ('' if name == 'all' else f'{name}/plot.py'))

  def test_the_readme_names_the_commands(self):
    text = (ROOT / 'README.md').read_text(encoding='utf-8')
    named = re.search(r'^The commands are (.*?);', text, re.MULTILINE | re.DOTALL)[1]
    runs = [p.stem for p in (ROOT / 'scripts').glob('*.py')
            if "\nif __name__ == '__main__':\n" in p.read_text(encoding='utf-8')]
    self.assertEqual(re.findall(r'`(\w+)`', named), sorted(set(runs) - {'worker'}))

  def test_every_experiment_redraws_its_figure(self):
    for folder in sorted(p.parent for p in (ROOT / 'experiments').glob('*/README.md')):
      text = (folder / 'plot.py').read_text(encoding='utf-8')
      self.assertIn(f'  python -m experiments.{folder.name}.plot  ', text)
      self.assertRegex(text, r"__main__':(\n  .*)*\n  plots.save\(figure\(.*'figure.png'\)")

  def test_make_targets_exist(self):
    targets = re.findall(r'^([a-z][\w-]*):', (ROOT / 'Makefile').read_text(), re.M)
    for doc in DOCS:
      for name in re.findall(r'(?:^|`)make ([a-z][\w-]+)', doc.read_text(encoding='utf-8'), re.M):
        self.assertIn(name, targets, f'{doc.name}: make {name}')

  def test_config_docstrings_name_themselves(self):
    for path in sorted((ROOT / 'configs').glob('[!_]*.py')):
      for name in re.findall(r'--config=configs/(\w+)\.py', path.read_text(encoding='utf-8')):
        self.assertTrue((ROOT / 'configs' / f'{name}.py').exists(), f'{path.name}: {name}')


if __name__ == '__main__':
  absltest.main()
