"""The shape of the tree: which room may import which, who may jit, how long a file may be."""

import ast
import pathlib

from absl.testing import absltest
from absl.testing import parameterized

ROOT = pathlib.Path(__file__).resolve().parents[1]
CODE = ('grpo', 'configs', 'scripts', 'experiments', 'tests')
MAX_LINES = 300
MAX_COLUMNS = 100

# What the files of a room of grpo/ may import from grpo/, their own room included.
VOCABULARY = {'types', 'masked', 'keys', 'writes', 'paths'}
ARROWS = {
    'types': set(),
    'masked': set(),
    'keys': set(),
    'writes': set(),
    'paths': set(),
    'objective': VOCABULARY | {'objective'},
    'tasks': VOCABULARY | {'tasks'},
    'models': VOCABULARY | {'models'},
    'rollout': VOCABULARY | {'objective', 'tasks', 'models', 'rollout'},
    'slots': VOCABULARY | {'objective'},
    'decays': set(),
    'build': VOCABULARY | {'objective', 'tasks', 'models', 'rollout', 'slots', 'decays', 'verify'},
    'verify': VOCABULARY | {'verify'},
    'ranges': set(),
    'stale': set(),
    'slotted': {'stale'},
    'check': VOCABULARY | {'objective', 'tasks', 'models', 'rollout', 'build', 'ranges', 'slotted'},
    'learn': VOCABULARY | {'objective', 'tasks', 'models', 'rollout', 'build', 'check', 'ranges',
                           'learn'},
    'study': VOCABULARY | {'objective', 'tasks', 'models', 'rollout', 'slots', 'build', 'check',
                           'ranges', 'learn', 'study'},
}
# The only places of grpo/ that compile, donate or place arrays. A trailing slash means the folder.
COMPILERS = ('grpo/learn/actors.py', 'grpo/learn/loop.py', 'grpo/study/')


def sources(*folders: str) -> list[str]:
  """Python files below the folders, relative to the root."""
  return sorted(str(path.relative_to(ROOT)) for folder in folders
                for path in (ROOT / folder).rglob('*.py'))


def tree_of(path: str) -> ast.Module:
  return ast.parse((ROOT / path).read_text(encoding='utf-8'), filename=path)


def imports(path: str) -> list[tuple[str, str, int]]:
  """(module, name, line) of every import, those inside functions too; name is '' for a module."""
  found = []
  for node in ast.walk(tree_of(path)):
    if isinstance(node, ast.Import):
      found += [(alias.name, '', node.lineno) for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      module = '.' * node.level + (node.module or '')
      found += [(module, alias.name, node.lineno) for alias in node.names]
  return found


def is_module(dotted: str) -> bool:
  path = ROOT.joinpath(*dotted.split('.'))
  return path.is_dir() or path.with_suffix('.py').is_file()


def room_of(path: str) -> str:
  return pathlib.Path(path).parts[1].removesuffix('.py')


class LayoutTest(parameterized.TestCase):

  def assertNone(self, wrong: list[str]):
    if wrong:
      self.fail('\n'.join(wrong))

  def test_arrows_between_rooms(self):
    wrong = []
    for path in sources('grpo'):
      room = room_of(path)
      if room == '__init__':
        continue
      self.assertIn(room, ARROWS, f'{path}: a new room needs its arrows in this test')
      for module, name, line in imports(path):
        parts = (f'{module}.{name}' if module == 'grpo' else module).split('.')
        if parts[0] in ('configs', 'scripts', 'experiments', 'tests'):
          wrong.append(f'{path}:{line}: grpo/ may not import {parts[0]}/')
        elif parts[0] == 'grpo' and parts[1:] and parts[1] not in ARROWS[room]:
          wrong.append(f'{path}:{line}: {room} may not import {parts[1]}')
    self.assertNone(wrong)

  def test_only_build_reads_a_config_and_nothing_defines_flags(self):
    wrong = []
    for path in sources('grpo'):
      for module, name, line in imports(path):
        whole = f'{module}.{name}'
        if whole.startswith('ml_collections') and path != 'grpo/build.py':
          wrong.append(f'{path}:{line}: only grpo/build.py imports ml_collections')
        if whole.startswith(('absl.flags', 'absl.app', 'argparse')):
          wrong.append(f'{path}:{line}: flags belong in scripts/')
    self.assertNone(wrong)

  def test_jit_only_in_entry_points(self):
    wrong = []
    for path in sources('grpo'):
      if path in COMPILERS or path.startswith(tuple(c for c in COMPILERS if c.endswith('/'))):
        continue
      for node in ast.walk(tree_of(path)):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, 'id', None)
        if name in ('jit', 'pmap', 'pjit'):
          wrong.append(f'{path}:{node.lineno}: {name} belongs in one of {", ".join(COMPILERS)}')
    self.assertNone(wrong)

  def test_modules_are_imported_and_not_names(self):
    wrong = []
    for path in sources(*CODE):
      for module, name, line in imports(path):
        if module.startswith('.'):
          wrong.append(f'{path}:{line}: relative import')
        elif name == '*':
          wrong.append(f'{path}:{line}: star import')
        elif name and module.split('.')[0] in CODE:
          if not (is_module(f'{module}.{name}') or name[0].isupper()):
            wrong.append(f'{path}:{line}: import the module of {module}.{name}, not the name')
    self.assertNone(wrong)

  def test_files_are_short_and_lines_are_narrow(self):
    wrong = []
    for path in sources(*CODE):
      lines = (ROOT / path).read_text(encoding='utf-8').splitlines()
      if len(lines) > MAX_LINES:
        wrong.append(f'{path}: {len(lines)} lines; split it at {MAX_LINES}')
      wrong += [f'{path}:{i}: {len(line)} columns' for i, line in enumerate(lines, 1)
                if len(line) > MAX_COLUMNS]
    self.assertNone(wrong)

  def test_nothing_is_left_open(self):
    marks = ('TO' + 'DO', 'FIX' + 'ME', 'NotImplemented' + 'Error')
    wrong = [f'{path}: {mark}' for path in sources(*CODE)
             for mark in marks if mark in (ROOT / path).read_text(encoding='utf-8')]
    self.assertNone(wrong)

  def test_every_file_says_what_it_is(self):
    wrong = [path for path in sources(*CODE)
             if tree_of(path).body and ast.get_docstring(tree_of(path)) is None]
    self.assertNone(wrong)

  def test_all_names_what_exists(self):
    wrong = []
    for path in sources('grpo'):
      tree = tree_of(path)
      defined, listed = set(), []
      for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
          defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
          targets = node.targets if isinstance(node, ast.Assign) else [node.target]
          for target in targets:
            defined |= {leaf.id for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}
          if any(getattr(target, 'id', '') == '__all__' for target in targets):
            listed = ast.literal_eval(node.value)
      defined |= {(name or module).split('.')[-1] for module, name, _ in imports(path)}
      wrong += [f'{path}: __all__ lists {name}' for name in listed if name not in defined]
    self.assertNone(wrong)


if __name__ == '__main__':
  absltest.main()
