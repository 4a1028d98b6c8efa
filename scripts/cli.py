"""How every command meets its user: one clear line for bad input, and exit code 2.

  from scripts import cli

  def main(argv):
    ...

  if __name__ == '__main__':
    cli.run(main)

Bad input is: an unknown flag, a value of the wrong type, an unknown field after `--config.`, a
config file that does not exist, and any ValueError that our own code raises. What the system
refuses, such as a full disk or a folder that is read-only, is one line too. An error of a library,
or any other exception, is a fault of the program and keeps its traceback; so does everything under
GRPO_TRACEBACK=1.
"""

import ast
from collections.abc import Callable, Iterable
import difflib
import importlib.util
import os
import pathlib
import re
import sys
import traceback

from absl import app
from absl import flags
from absl import logging
import ml_collections
from ml_collections import config_flags

from configs import _tasks
from grpo import paths as names

ROOT = pathlib.Path(__file__).resolve().parent.parent
flags.disclaim_key_flags()  # those defined here belong to the command, and stand in its --help
_OWN = tuple(str(ROOT / room) + os.sep for room in ('grpo', 'configs', 'scripts', 'experiments'))
_DEFAULTS = []  # of the config flag, if this process has one


class UsageError(ValueError):
  """What the user asked for cannot be done; the message is one clear line."""


class Terminated(KeyboardInterrupt):
  """SIGTERM, where a command has work to end before it goes."""


def unknown(kind: str, name: str, known: Iterable[str],
            part: Callable[[str], str] = str) -> UsageError:
  """Error for a name that does not exist: names the nearest one, by a part of it, or else all."""
  known = sorted(known)
  parts = {part(k): k for k in known}
  near = difflib.get_close_matches(part(name), parts, n=5, cutoff=0.6)
  near.sort(key=lambda n: sorted(n) != sorted(part(name)))  # swapped letters before others
  hint = f'did you mean {parts[near[0]]!r}?' if near else f'known are {", ".join(known) or "none"}'
  return UsageError(f'no {kind} {name!r}: {hint}')


def paths(config: ml_collections.ConfigDict) -> list[str]:
  """Dotted paths of all fields, groups included."""
  out = []
  for key in config.keys():
    out.append(key)
    value = config[key]
    if isinstance(value, ml_collections.ConfigDict):
      out.extend(f'{key}.{rest}' for rest in paths(value))
  return out


def check_path(config: ml_collections.ConfigDict, path: str, flag: str = '--config.') -> None:
  """Raises UsageError, with the nearest field, if a dotted path is not a field of the config."""
  known = paths(config)
  if path in known:
    return
  added = set(_tasks.interventions(_tasks.fields('line'))) - set(_tasks.fields('line'))
  if path.removeprefix('task.') in added and 'task.wrong_at' not in known:
    raise UsageError(f'no field {flag}{path}: it needs the third word of a config, as in '
                     '--config=FILE:SIZE,TASK,interventions')
  near = names.namesakes(path, known)
  near += difflib.get_close_matches(path, known, n=1, cutoff=0.5)
  parent = path
  while '.' in parent and not near:
    parent = parent.rsplit('.', 1)[0]
    near = [p for p in known if p.startswith(parent + '.') and '.' not in p[len(parent) + 1:]]
  near = list(dict.fromkeys(near))[:3] or [p for p in known if '.' not in p]
  raise UsageError(f'no field {flag}{path}; nearest: {", ".join(flag + p for p in near)}')


def _check_config_flags(argv):
  """Looks at `--config=FILE:ARG --config.PATH=...` before ml_collections does."""
  for i, arg in enumerate(argv):
    found = re.match(r'^--?config(?:=(.*))?$', arg, re.DOTALL)
    if not found:
      continue
    value = found[1] if found[1] is not None else argv[i + 1] if i + 1 < len(argv) else ''
    if not value:
      raise UsageError('--config needs a file, such as configs/grpo.py:small')
    path = pathlib.Path(value.split(':', 1)[0])
    _check_config(path)


def _check_config(path):
  """Raises UsageError for a file that is no config. It is not run to see that: it may be anything.
  """
  if not path.is_file():
    raise _no_config(path)
  needed = f'config file {path}: needs to be a .py file that defines get_config'
  if path.suffix != '.py':
    raise UsageError(f'{needed}; it ends in {path.suffix!r}')
  try:
    tree = ast.parse(path.read_bytes())
  except SyntaxError as error:
    raise UsageError(f'{needed}; line {error.lineno or 1}: {error.msg}') from error
  except (OSError, ValueError) as error:
    raise UsageError(f'{needed}: {error}') from error
  defined = {getattr(node, 'name', None) for node in ast.walk(tree)}  # functions and imports
  defined |= {node.asname for node in ast.walk(tree) if isinstance(node, ast.alias)}
  defined |= {node.id for node in ast.walk(tree)
              if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
  if 'get_config' not in defined:
    raise UsageError(f'{needed}; it does not define it')


def _fail_override(error, argv, default):
  """Names the first override which is not a field of the config."""
  spec = default
  for i, arg in enumerate(argv):
    if re.match(r'^--?config=', arg):
      spec = arg.split('=', 1)[1]
    elif re.match(r'^--?config$', arg) and i + 1 < len(argv):
      spec = argv[i + 1]
  try:
    config = load(spec)
    for arg in argv:
      found = re.match(r'^--?(?:no)?config\.([^=]+)', arg)
      if found:
        check_path(config, found[1])
  except ValueError as better:
    fail(better)
  fail(error)


def config_flag(default: str, text: str = 'Config file and its argument.') -> flags.FlagHolder:
  """Defines `--config=FILE:ARGUMENT`, locked, with `--config.FIELD=VALUE` for every field.

  Overrides of the default config are read here, when the flag is defined; those of another one in
  `parse`.
  """
  _DEFAULTS.append(default)
  try:
    return config_flags.DEFINE_config_file('config', default, text, lock_config=True)
  except (AttributeError, KeyError, TypeError) as error:
    _fail_override(error, sys.argv, default)


def folder_flag(name: str, text: str, required: bool = False) -> flags.FlagHolder:
  """Defines a flag that names a folder; an empty one would mean the current folder."""
  holder = flags.DEFINE_string(name, None, text, required=required)
  flags.register_validator(holder, lambda value: value is None or bool(value.strip()),
                           'needs a folder, such as runs/try')
  return holder


def load(spec: str) -> ml_collections.ConfigDict:
  """The config of 'FILE' or 'FILE:ARGUMENT', unlocked. FILE may be relative to the repository."""
  name, _, argument = spec.partition(':')
  path = pathlib.Path(name)
  path = path if path.is_file() else ROOT / name
  _check_config(path)
  module_spec = importlib.util.spec_from_file_location(f'config_{path.stem}', path)
  module = importlib.util.module_from_spec(module_spec)
  module_spec.loader.exec_module(module)
  return module.get_config(*([argument] if argument else []))


def _no_config(path):
  """Error for a config file that does not exist; names a similar one."""
  inside = lambda p: str(p.relative_to(ROOT) if p.is_relative_to(ROOT) else p)
  known = []
  for folder in (path if path.is_dir() else path.parent, ROOT / 'configs'):
    known = known or [inside(p) for p in folder.glob('[!_]*.py')
                      if p.name != 'base.py' and b'get_config' in p.read_bytes()]
  # Compared by stem: a folder in common is no likeness.
  return unknown('config file', inside(path), known, part=lambda name: pathlib.Path(name).stem)


def parse(argv: list[str]) -> list[str]:
  """Parses flags; what is left over. Ends the process with code 2 and one line on bad input."""
  try:
    _check_config_flags(argv)
    try:
      rest = flags.FLAGS(argv)
    except SystemExit:  # after --help, which absl ends with code 1, as if it were an error to ask
      sys.exit(0)
    except (AttributeError, KeyError, TypeError) as error:
      _fail_override(error, argv, _DEFAULTS[-1] if _DEFAULTS else '')
    for name, value in flags.FLAGS.flag_values_dict().items():  # bounds let nan pass
      if isinstance(value, float) and value != value and not name.startswith('config.'):
        raise UsageError(f'--{name}=nan: must be a number')
    if len(rest) > 1:
      raise UsageError(f'unexpected argument {rest[1]!r}: flags look like --name=value')
    return rest
  except (flags.Error, UsageError) as error:
    fail(error)


def fail(error: Exception) -> None:
  """Prints the error as one line and ends the process with code 2."""
  if os.environ.get('GRPO_TRACEBACK'):
    traceback.print_exception(error)
  lines = [line.strip() for line in str(error).splitlines() if line.strip()]
  # ml_collections puts a whole traceback in the message; the sentence is its last line.
  line = lines[-1] if any('Traceback' in x for x in lines) else ' '.join(lines)
  line = re.sub(r'^(\w+\.)*\w*Error: ', '', line)
  group = re.match(r"flag --(\S+?)=(.*): Failed to parse '.*' as a ConfigDict: ", line)
  if group:
    flag, value = group.groups()
    hint = (f'set one of them, such as --{flag}.name={value} where there is a name, or all, such '
            f'''as --{flag}="{{'name': '{value}'}}"''')
    if value.lstrip().startswith('{'):
      hint = ("it is no dict in Python syntax, such as {'name': 'dis', 'low': 0.3, 'high': 5.0}: "
              'words are quoted, and nan is no number there')
    elif flag == 'config.task':
      hint = f'choose the task in the argument of the config, as in --config=FILE:SIZE,{value}'
    line = f'--{flag}={value}: this is a group of fields: {hint}'
  line = re.sub(r'^flag --(\S+?)=None: Flag --\S+ must have a value other than None\.$',
                r'--\1 is required', line).rstrip(' .') or type(error).__name__
  name = pathlib.Path(sys.argv[0]).stem
  print(f'{name}: {line}{"" if line.endswith("?") else "."} See --help.', file=sys.stderr,
        flush=True)
  sys.exit(2)


def is_own(error: BaseException) -> bool:
  """Whether our own code raised the error, rather than a library it called."""
  frames = traceback.extract_tb(error.__traceback__)
  return bool(frames) and os.path.abspath(frames[-1].filename).startswith(_OWN)


def run(main: Callable[[list[str]], int | None]) -> None:
  """Parses the flags and calls `main`; its return value is the exit code."""
  def guarded(argv):
    if not flags.FLAGS['verbosity'].present:
      logging.set_verbosity(logging.WARNING)  # checkpoints would tell of every file they write
    try:
      return main(argv)
    except ValueError as error:
      if isinstance(error, UsageError) or is_own(error):
        fail(error)
      raise
    except KeyboardInterrupt as stop:
      terminated = isinstance(stop, Terminated)
      print(f'{"terminated" if terminated else "interrupted"}; the same command continues',
            file=sys.stderr)
      return 143 if terminated else 130
    except BrokenPipeError:  # whoever read our output has seen enough
      os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
      return 141
    except OSError as error:
      if error.strerror is None:  # raised by a library for something of its own
        raise
      fail(OSError(': '.join(str(x) for x in (error.filename, error.strerror) if x is not None)))

  app.run(guarded, flags_parser=parse)
