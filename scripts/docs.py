"""Writes docs/methods.md and docs/tasks.md from what the code says.

  python -m scripts.docs            writes the files
  python -m scripts.docs --check    writes nothing; exit code 1 if one is not what it would be

Methods: every config as a row of a table and a section. Tasks: see scripts/task_pages.py.

Names and values come from configs/, formulas from the docstrings of the functions that a config
names, and what neither can say (traps, other codes, where to read on) from docs/notes.toml.
"""

from collections.abc import Mapping
import difflib
import importlib
import inspect
import re
import tomllib
from typing import Any

from absl import flags

from configs import base
from grpo import build
from grpo import slots
from grpo.objective import critic as critics
from grpo.rollout import branch
from scripts import cells
from scripts import cli
from scripts import outputs
from scripts import task_pages

flags.declare_key_flag('check')

PAGE, NOTES = cli.ROOT / 'docs' / 'methods.md', cli.ROOT / 'docs' / 'notes.toml'
BASE = 'grpo'
# Columns of the table -> slots that stand in them; `other` takes the rest.
COLUMNS = dict(credit=('chunk', 'returns'), advantages=('advantages',),
               loss=('ratio', 'surrogate'), divisor=('aggregate',), critic=('critic',))
LABELLED = ('shape', 'filter', 'correction', 'gate', 'weigh', 'memory', 'auxiliary')
DERIVED = ('count', 'turns', 'segments', 'tokens', 'group', 'prompt', 'max_length')
CODES = dict(trl='TRL', verl='verl', tunix='tunix')
HEAD = """\
# Methods

Written by `python -m scripts.docs` from `configs/`, the docstrings of `grpo/objective/` and
`docs/notes.toml`; do not edit. `python -m scripts.docs --check` tells whether it is up to date.

A method is one choice for each slot (see [README.md](../README.md)). Values are those of the size
`small`; a slot that is not mentioned is that of [grpo](#grpo). Formulas are the docstrings of the
functions that a config names: capital letters behind an underscore are the axes of an array (P
prompts, G samples, K chunks, T tokens), and sg[] stops the gradient. What TRL, verl and tunix do is
stated where their source was read, at versions of July and August 2026. No entry for TRL or verl
means that nothing was checked there. tunix (commit c7d8950) has GRPO, Dr. GRPO, DAPO, GSPO-token,
leave-one-out advantages, token TIS and PPO, and none of the other methods of this page.

## All methods, and what differs from GRPO
"""


def names() -> list[str]:
  """All configs, the base first."""
  found = sorted(p.stem for p in (cli.ROOT / 'configs').glob('[!_]*.py')
                 if p.stem not in ('base', 'llm'))
  return [BASE] + [n for n in found if n != BASE]


def notes() -> dict[str, Any]:
  """What is written by hand. Raises ValueError where a config has no entry, or one too many."""
  data = tomllib.loads(NOTES.read_text(encoding='utf-8'))
  wrong = sorted(set(names()) ^ set(data['methods']))
  if wrong:
    raise cli.UsageError(f'docs/notes.toml: configs and entries differ in {", ".join(wrong)}')
  for name, note in data['methods'].items():
    missing = sorted({'neighbour', 'slots', 'traps'} - set(note))
    unknown = sorted(set(note) - {'neighbour', 'slots', 'traps', 'more', *CODES})
    if missing or unknown or not note['traps']:
      raise cli.UsageError(f'{NOTES.name}, {name}: unknown {unknown}, lacks {missing or "a trap"}')
  return data


def module(name: str):
  return importlib.import_module(f'configs.{name}')


def fields(name: str) -> dict[str, Any]:
  """Slots of a config, and its sections `sample` and `train`."""
  c = build.plain(module(name).get_config('small'))
  return c['method'] | dict(sample=c['sample'], train=c['train'])


def differences(name: str, other: str) -> list[str]:
  """Slots in which two configs differ, in the order of the base."""
  its = fields(other)
  return [k for k, v in fields(name).items() if v != its[k]]


def call(spec: Mapping[str, Any]) -> str:
  """A slot as a call: name(argument=value)."""
  given = ', '.join(f'{k}={_value(v)}' for k, v in spec.items() if k != 'name')
  return f'{spec["name"]}({given})' if given else spec['name']


def _value(x):
  return f'{x:g}' if isinstance(x, float) else repr(x)


def _calls(slot: str, value: Any, plain: Any) -> list[str]:
  """What a slot holds, as code; of a section, what differs from the base."""
  if slot in LABELLED:
    return [call(value[k]) for k in sorted(value)]
  if slot == 'critic':
    usual = base.value_critic().to_dict()
    return [call({k: v for k, v in value.items() if k == 'name' or v != usual[k]})]
  if slot in ('sample', 'train'):
    return [f'{slot}.{k}={_value(v)}' for k, v in value.items() if v != plain[k]]
  return [call(value)] if isinstance(value, Mapping) else [f'{slot}={_value(value)}']


def functions(slot: str, value: Any) -> list[Any]:
  """The functions that a slot names."""
  where = dict(chunk=slots.chunks, returns=(slots.returns, slots.gae), ratio=slots.ratios,
               advantages=(slots.advantages, slots.baselines, slots.anchors, slots.agents,
                           slots.trees),
               surrogate=(slots.surrogates, slots.trust, slots.quadratic), kl=slots.kl,
               aggregate=slots.aggregate, shape=slots.rewards, filter=slots.filters,
               correction=slots.corrections, gate=slots.gates, weigh=slots.weigh,
               memory=slots.memory, auxiliary=slots.auxiliary, branch=branch)
  if slot == 'critic' and value['name'] != 'none':
    return [critics.CriticSpec]
  if slot not in where:
    return []
  specs = [value[k] for k in sorted(value)] if slot in LABELLED else [value]
  rooms = where[slot] if isinstance(where[slot], tuple) else [where[slot]]
  found = {n: getattr(room, n) for room in rooms for n in room.__all__}
  return [found[s['name']] for s in specs]


def _parameters(function):
  return [] if inspect.isclass(function) else inspect.signature(function).parameters.values()


def formula(function: Any) -> str:
  """Docstring of a function, without its list of arguments, and its defaults; a class lists all."""
  ends = r'\n(?:Args|Returns|Raises):\n'  # of a class the attributes are what a config sets
  text = re.split(ends, inspect.getdoc(function))[0].rstrip()
  defaults = [f'{p.name}={_value(p.default)}' for p in _parameters(function)
              if p.kind is p.KEYWORD_ONLY and p.default is not p.empty and p.name not in DERIVED]
  file = function.__module__.replace('.', '/') + '.py'
  head = f'{function.__name__}, {file}' + (f'; defaults {", ".join(defaults)}' if defaults else '')
  return '\n'.join([f'{head}', '', *(f'  {line}'.rstrip() for line in text.splitlines())])


def about(name: str) -> tuple[str, str, str, str]:
  """Title, idea, source and remarks, from the docstring of a config."""
  parts = (inspect.getdoc(module(name)) or '').split('\n\n')
  title, _, idea = parts[0].partition(': ')
  rest = [' '.join(p.split()) for p in parts[1:] if 'python -m' not in p]
  if not rest:
    raise cli.UsageError(f'configs/{name}.py: its docstring needs a paragraph with the paper, or '
                         'with "No paper: ..." and where the equation is')
  return title, idea or title, rest[0].rstrip('.'), ' '.join(rest[1:])


def paper(source: str) -> str:
  """arXiv ids of a source line as links; '' if it has none."""
  ids = re.findall(r'arXiv:(\d{4}\.\d{5})', source)
  return ', '.join(f'[{i}](https://arxiv.org/abs/{i})' for i in ids)


def table() -> list[str]:
  plain = fields(BASE)
  lines = [f'| method | arXiv | {" | ".join([*COLUMNS, "other"])} |',
           f'|{"---|" * (len(COLUMNS) + 3)}']
  for name in names():
    mine = fields(name)
    changed = differences(name, BASE) or [s for its in COLUMNS.values() for s in its]
    parts = {column: [] for column in [*COLUMNS, 'other']}
    for slot in changed:
      column = next((c for c, its in COLUMNS.items() if slot in its), 'other')
      parts[column] += [f'`{x}`' for x in _calls(slot, mine[slot], plain[slot])]
    row = ' | '.join(' '.join(p) for p in parts.values())
    lines.append(f'| [{name}](#{name}) | {paper(about(name)[2])} | {row} |')
  return [re.sub(r' +', ' ', line) for line in lines]


def section(name: str, note: Mapping[str, Any]) -> list[str]:
  title, idea, source, remarks = about(name)
  mine, plain = fields(name), fields(BASE)
  shown = differences(name, BASE) or [s for its in COLUMNS.values() for s in its if s != 'critic']
  lines = [f'## {name}', '', f'**{title}.** {idea[:1].upper()}{idea[1:]}', '',
           f'Source: {source}. Config: [configs/{name}.py](../configs/{name}.py).']
  if note['neighbour']:
    lines[-1] += (f' Differs from [{note["neighbour"]}](#{note["neighbour"]}) in '
                  f'{", ".join(f"`{s}`" for s in note["slots"])}.')
  head = 'slot' if name == BASE else f'slot; all others as in [{BASE}](#{BASE})'
  for text in filter(None, (remarks, note.get('more'))):
    lines += ['', text]
  lines += ['', f'| {head} | choice |', '|---|---|']
  lines += [f'| `{s}` | {", ".join(f"`{x}`" for x in _calls(s, mine[s], plain[s]))} |'
            for s in shown]
  texts = [formula(f) for s in shown for f in functions(s, mine[s])]
  lines += ['', '```text', '\n\n'.join(texts), '```', '', 'Traps:', '']
  lines += [f'- {trap}' for trap in note['traps']]
  codes = [f'- {CODES[code]}: {note[code]}' for code in CODES if code in note]
  return [*lines, '', *(['Other codes:', '', *codes, ''] if codes else [])]


def page() -> str:
  """The whole document."""
  data = notes()
  lines = [HEAD, *table(), '']
  for name in names():
    lines += section(name, data['methods'][name])
  lines += ['## Left out', '', 'Methods one may look for, and why there is no config:', '']
  lines += [f'- {name}: {reason}.' for name, reason in data['left_out'].items()]
  return '\n'.join(lines) + '\n'


def main(argv):
  del argv
  code, same = 0, []
  for path, made in ((PAGE, page()), (task_pages.PAGE, task_pages.page())):
    name = path.relative_to(cli.ROOT) if path.is_relative_to(cli.ROOT) else path
    if not outputs.CHECK.value:
      cells.write(path, made)
      print(f'wrote {name}')
      continue
    old = path.read_text(encoding='utf-8').splitlines() if path.exists() else []
    diff = [*difflib.unified_diff(old, made.splitlines(), n=0, lineterm='')][3:]
    if not diff:
      same.append(str(name))
    else:
      print(f'{name} is out of date, first at {diff[0][:60]!r}: run python -m scripts.docs')
      code = 1
  if same:
    print(f'up to date: {", ".join(same)}')
  return code


if __name__ == '__main__':
  cli.run(main)
