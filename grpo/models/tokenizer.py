"""Text to tokens and back, and a model's chat template, rendered in a sandbox.

`tokenizers` reads tokenizer.json and `jinja2` runs the template; both come with the extra `llm`.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import datetime
import functools
import json
import os
import pathlib
from typing import Any

from grpo.models import hf

__all__ = ['Tokenizer', 'load']


@dataclasses.dataclass(frozen=True)
class Tokenizer:
  """What turns messages into token ids.

  Attributes:
    model: tokenizers.Tokenizer.
    template: source of the chat template; '' if the model has none.
    special: text of special tokens by role, such as eos_token.
    stops: ids that end an answer.
  """
  model: Any
  template: str
  special: Mapping[str, str]
  stops: tuple[int, ...]

  def encode(self, text: str) -> list[int]:
    """Ids of a text; nothing is put in front, special tokens in it count as such."""
    return self.model.encode(text, add_special_tokens=False).ids

  def decode(self, ids: Sequence[int], special: bool = False) -> str:
    """Text of ids; special tokens are left out unless asked for."""
    return self.model.decode([int(i) for i in ids], skip_special_tokens=not special)

  @functools.cached_property
  def commands(self) -> frozenset[int]:
    """Ids of special tokens, which have no text."""
    return frozenset(i for i, t in self.model.get_added_tokens_decoder().items() if t.special)

  def texts(self, vocab: int) -> tuple[str, ...]:
    """Text of each id alone, '' for special tokens and for ids that the tokenizer does not know.

    Parts of a character come out as U+FFFD; ASCII comes out as it is.
    """
    known = self.model.get_vocab_size()
    plain = [[i] for i in range(min(vocab, known))]
    found = self.model.decode_batch(plain, skip_special_tokens=True)
    return tuple(found) + ('',) * max(vocab - known, 0)

  def render(self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping] | None = None,
             generate: bool = True) -> str:
    """The text of a conversation.

    Args:
      messages: dicts with role and content.
      tools: JSON schemas of functions, for templates that show them.
      generate: whether the head of the model's next turn is put behind.

    Raises:
      ValueError: there is no template, or it refuses these messages.
    """
    if not self.template:
      raise ValueError('this model has no chat template')
    try:
      return _compiled(self.template).render(
          messages=list(messages), tools=tools, add_generation_prompt=generate, **self.special)
    except hf.library('jinja2').exceptions.TemplateError as error:
      raise ValueError(f'the chat template refuses these messages: {error}') from error


@functools.lru_cache(maxsize=16)
def _compiled(template: str):
  """A template, with what templates of models expect to find, and no way out of it.

  The date is fixed: a prompt must not depend on the day.
  """
  jinja2 = hf.library('jinja2')
  sandbox = hf.library('jinja2.sandbox')

  def fail(message):
    raise jinja2.exceptions.TemplateError(message)

  world = sandbox.ImmutableSandboxedEnvironment(
      trim_blocks=True, lstrip_blocks=True, extensions=['jinja2.ext.loopcontrols'])
  world.filters['tojson'] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
  world.globals['raise_exception'] = fail
  world.globals['strftime_now'] = datetime.date(2024, 7, 26).strftime
  return world.from_string(template)


@functools.lru_cache(maxsize=4)
def load(path: str | os.PathLike) -> Tokenizer:
  """The tokenizer of the model at a path, see hf.find.

  Raises:
    ValueError: a file is missing or cannot be read.
  """
  path = hf.find(path)
  if path.suffix == '.gguf':
    from grpo.models import gguf_file  # it needs a library that other models do not
    made, template, special = gguf_file.tokenizer(path)
    return Tokenizer(made, template, special, (made.token_to_id(special['eos_token']),))
  file = path / 'tokenizer.json'
  if not file.is_file():
    raise ValueError(f'{path} has no tokenizer.json')
  try:
    made = hf.library('tokenizers').Tokenizer.from_file(str(file))
  except Exception as error:
    raise ValueError(f'{file} cannot be read: {error}') from error
  made.no_padding()
  made.no_truncation()
  config = _json(path / 'tokenizer_config.json')
  special = {k: v['content'] if isinstance(v, dict) else v for k, v in config.items()
             if k.endswith('_token') and v}
  return Tokenizer(made, _template(path, config), special, _stops(path, made, special))


def _json(path: pathlib.Path) -> dict[str, Any]:
  """An object of a JSON file; empty if there is none."""
  if not path.is_file():
    return {}
  try:
    return json.loads(path.read_text(encoding='utf-8'))
  except ValueError as error:
    raise ValueError(f'{path} cannot be read: {error}') from error


def _template(path, config) -> str:
  """The chat template: a file of its own, or a field; of several, the one named default."""
  file = path / 'chat_template.jinja'
  if file.is_file():
    return file.read_text(encoding='utf-8')
  found = _json(path / 'chat_template.json').get('chat_template') or config.get('chat_template', '')
  if isinstance(found, list):
    found = {x['name']: x['template'] for x in found}.get('default', '')
  return found or ''


def _stops(path, made, special) -> tuple[int, ...]:
  """Ids that end an answer: those of generation_config.json, config.json and the tokenizer."""
  stops = []
  for name in ('generation_config.json', 'config.json'):
    ids = _json(path / name).get('eos_token_id')
    stops += [] if ids is None else ids if isinstance(ids, list) else [ids]
  if 'eos_token' in special:
    stops.append(made.token_to_id(special['eos_token']))
  stops = tuple(dict.fromkeys(int(i) for i in stops if i is not None))
  if not stops:
    raise ValueError(f'{path} names no token that ends an answer')
  return stops
