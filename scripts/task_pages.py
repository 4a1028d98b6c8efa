"""docs/tasks.md: a page for each task, from its docstring, its knobs and an episode of its expert.

What a knob stands for is said once, in docs/tasks.toml; scripts/docs.py writes the file.
"""

import functools
import importlib
import inspect
import tomllib
from typing import Any

from configs import base
from grpo import keys
from grpo import tasks
from grpo.study import play
from grpo.tasks import interventions
from scripts import cli

__all__ = ['page', 'notes', 'example', 'PAGE']

PAGE, NOTES = cli.ROOT / 'docs' / 'tasks.md', cli.ROOT / 'docs' / 'tasks.toml'
HEAD = """\
# Tasks

Written by `python -m scripts.docs` from the docstrings of `grpo/tasks/`, the knobs of each task and
`docs/tasks.toml`; do not edit. `python -m scripts.docs --check` tells whether it is up to date.

A task is `reset`, `step` and a scripted expert, pure functions of arrays. Its knobs are traced
scalars: one compiled program serves a grid of them, and for the same key a knob moves no random
number of another one. Scores in the texts below are those of many episodes, and tests hold them.

Sizes and defaults listed here are those of a task by itself. A config sets its own, those of
`configs/_tasks.py`, which can differ (`depth` and `walls` of sokoban). The easy case is the one
that tables are measured at: the default of each knob here, unless a text says otherwise.

What each knob does to three fixed policies was measured in
[experiments/knobs](../experiments/knobs/README.md).
"""
WINDOWS = """\
One stressor is no knob of a task: memory that fades. It is in the windows that a policy reads, and
any task of several turns has it. A full window is followed by one that starts with the prompt and
the last turns. What is lost that way costs only who needs it: a sign, a mode or a wish that was
told once. Between the prompt and those turns a summary can stand that the policy wrote itself; the
scripted expert writes what it knows of the mode and the goal in `horizon`, and its last observation
elsewhere. See [compaction.md](compaction.md).
"""
KINDS = dict(
    stressor='Stressors: what makes long work hard, one knob each. In the easy case they are 0, '
             'or, where they count something (`horizon`, `decisive`, `sources`, `roles`), small.',
    level='Levels: the size of an instance.',
    reward='What is paid. These change no observation and no end.',
    end='When an episode ends. These change no value of a state.',
    split='Splits.')


def notes() -> dict[str, Any]:
  """What is written by hand. Raises UsageError where a knob or a task has no entry, or one more."""
  data = tomllib.loads(NOTES.read_text(encoding='utf-8'))
  knobs = {k for name in tasks.__all__ for k in _plain(name).knobs}
  for what, have, want in (('knobs', data['knobs'], knobs),
                           ('examples', data['examples'], tasks.__all__),
                           ('windows', data['windows'], base.get_config('smoke').window),
                           ('interventions', data['interventions'], interventions.KNOBS)):
    wrong = sorted(set(have) ^ set(want))
    if wrong:
      raise cli.UsageError(f'docs/tasks.toml: {what} and entries differ in {", ".join(wrong)}')
  return data


def _module(name):
  return importlib.import_module(f'grpo.tasks.{name}')


@functools.cache
def _plain(name):
  """A task at its default sizes."""
  return _module(name).make()


def _holders(knob):
  return [name for name in tasks.__all__ if knob in _plain(name).knobs]


def _table(data) -> list[str]:
  """What each knob stands for, by kind."""
  lines = []
  for kind, text in KINDS.items():
    lines += [text, '', '| knob | stands for | success, as it grows | tasks |', '|---|---|---|---|']
    for knob, entry in data['knobs'].items():
      if entry['kind'] == kind:
        where = ', '.join(f'[{name}](#{name})' for name in _holders(knob))
        grows = '' if entry['grows'] == 'none' else entry['grows']
        lines.append(f'| `{knob}` | {entry["stressor"]} | {grows} | {where} |')
    lines.append('')
  return lines


def _interventions(data) -> list[str]:
  """The table of interventions."""
  text = inspect.getdoc(interventions).split('\n\n')
  lines = ['## Interventions', '', _flow(text[-1]), '',
           'A config of `SIZE,TASK,interventions` has their knobs; each is a turn, -1 is never.',
           '',
           '| knob | after the action of that turn |', '|---|---|']
  return lines + [f'| `{knob}` | {text} |' for knob, text in data['interventions'].items()] + ['']


def _windows(data) -> list[str]:
  """The table of what windows lose."""
  lines = ['## Windows', '', _flow(WINDOWS), '',
           '| field | is | success, as it grows, of who has to remember |', '|---|---|---|']
  return lines + [f'| `window.{field}` | {entry["is"]} | {entry["grows"]} |'
                  for field, entry in data['windows'].items()] + ['']


def _flow(text):
  return ' '.join(text.split())


def example(name: str, spec: dict[str, Any]) -> str:
  """An episode of the expert as text: the prompt, then a line a turn."""
  sizes = {k: v for k, v in spec.items() if k != 'knobs'}
  task = _module(name).make(**sizes) if sizes else _plain(name)
  lines = []
  for i, turn in enumerate(play.turns(task, task.expert, keys.root(0), **spec.get('knobs', {}))):
    seen = f' -> {turn.observation}' if turn.observation else ''
    paid = f'  [{turn.over}, reward {turn.reward:.2f}]' if turn.over else ''
    lines.append(f'{i}. {turn.action}{seen}{paid}' if i else turn.observation)
  return '\n'.join(lines)


def _section(name, data, episode) -> list[str]:
  module, task = _module(name), _plain(name)
  title, _, body = inspect.getdoc(module).partition('\n\n')
  spec = data['examples'][name]
  asked = ', '.join(f'{k}={v}' for k, v in ({k: v for k, v in spec.items() if k != 'knobs'}
                                            | spec.get('knobs', {})).items())
  lines = [f'## {name}', '', f'**{_flow(title)}**', '',
           f'[grpo/tasks/{name}.py](../grpo/tasks/{name}.py); {len(task.vocab)} words, at most '
           f'{task.max_turns} turn{"s" * (task.max_turns > 1)} of {task.action_len} word'
           f'{"s" * (task.action_len > 1)} at the default sizes.', '', '```text', body, '```', '',
           '| knob | default | stands for |', '|---|---|---|']
  lines += [f'| `{knob}` | {value:g} | {data["knobs"][knob]["stressor"]} |'
            for knob, value in task.knobs.items()]
  return [*lines, '', f'An episode of the expert{f", with {asked}" if asked else ""}:', '',
          '```text', episode, '```', '']


def page(episodes: dict[str, str] | None = None) -> str:
  """The whole document; `episodes` are those of `example`, None plays them."""
  data = notes()
  if episodes is None:
    episodes = {name: example(name, data['examples'][name]) for name in tasks.__all__}
  lines = [HEAD, '## Knobs', '', *_table(data), *_interventions(data),
           *_windows(data)]
  for name in tasks.__all__:
    lines += _section(name, data, episodes[name])
  return '\n'.join(lines)
