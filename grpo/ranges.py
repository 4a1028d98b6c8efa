"""Which numbers a field of a config may hold, whatever the method: rules for grpo/check.py."""

from collections.abc import Iterator, Mapping
import math
from typing import Any

__all__ = ['rules', 'SEED', 'leaves']

SEED = 2 ** 31 - 1  # largest seed: it is a 32-bit integer on the device
_SIZES = ('layers', 'hidden', 'heads', 'kv_heads', 'head_dim', 'mlp')
# Dotted path, least value, and whether that value itself is allowed.
_LEAST = (('train.eps', 0, False), ('train.weight_decay', 0, True), ('train.warmup', 0, True),
          ('train.learning_rate', 0, True), ('clone.steps', 0, True), ('clone.every', 1, True),
          ('clone.prompts', 1, True), ('window.carry', 0, True), ('window.summary', 0, True),
          ('method.entropy_coef', None, True),
          ('method.kl_coef', None, True), ('method.critic.learning_rate', 0, True),
          ('method.critic.warmup', 0, True), ('method.critic.clip', 0, True),
          ('method.returns.alpha', 0, False))
# Arguments of slots of a method, by name: least value, whether that itself is allowed, and most.
_ARGUMENTS = tuple((name, *span) for names, *span in (
    ('max_lag n eps tol ddof floor depth alpha omega low high up_low up_high down_low down_high '
     'lam_positive lam_negative k_positive k_negative power', 0, True, math.inf),
    ('tau beta delta bound cap cache most half target horizon positive negative', 0, False,
     math.inf),
    ('share fraction discount lam turn_lam turn_discount decay weight', 0, True, 1),
    ('length slots every trees width samples', 1, True, math.inf)) for name in names.split())
# Of these, and of a critic, what other rules compare before functions see it.
_WHOLE = ('length', 'slots', 'every', 'trees', 'width', 'samples', 'updates', 'warmup')
_CRITIC = ('lam', 'discount', 'learning_rate', 'clip')
# Where these names mean something else: bounds of a reward, and of a divergence with a sign.
_SIGNED = ('shape.clip', 'correction.reject')
# Bounds above everything a run may sensibly hold, so that a slip of a few zeros ends at once. A
# number of a task is a count of turns or of things, or a share.
TURNS, THINGS, EPISODES = 2 ** 16, 2 ** 12, 2 ** 20
_TURNS = ('horizon', 'max_turns', 'decisive', 'delay', 'spare', 'depth', 'max_depth')
_BATCHES = ('sample', 'evaluate', 'clone', 'audit')


# Sections of numbers, those of them that need not be whole, and those that are no numbers.
_SECTIONS = ('window', 'sample', 'clone', 'train', 'evaluate', 'audit', 'mesh', 'checkpoint')
_REAL = ('sample.temperature', 'clone.pass_rate', 'clone.noise', 'clone.learning_rate',
         'train.learning_rate', 'train.b1', 'train.b2', 'train.eps', 'train.weight_decay',
         'train.clip_norm', 'method.kl_coef', 'method.entropy_coef')
_OTHER = ('sample.delay', 'train.decay', 'audit.estimators')


def rules(c: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
  """Pairs of (broken, what to tell the user). Values that are traced are left alone."""
  paths = [f'{section}.{name}' for section in _SECTIONS for name in c[section]]
  for path in ('seed', 'steps', 'log_every', 'method.reference_every', *_REAL[-2:], *paths):
    value = _at(c, path)
    wrong = not isinstance(value, (int, float)) or isinstance(value, bool)
    wrong |= path not in _REAL and isinstance(value, float)
    yield path not in _OTHER and wrong and not hasattr(value, 'dtype'), (
        f'{path}: must be {"a number" if path in _REAL else "an integer"}, got {value!r}')
  for path, value in leaves(c):
    yield isinstance(value, float) and math.isnan(value), f'{path}: must be a number, got nan'
  yield from _bounds(c)
  for path, least, itself in _LEAST:
    value = _at(c, path)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
      continue
    yield math.isinf(value), f'{path}: must be finite, got {value}'
    if least is not None:
      low = value < least if itself else value <= least
      yield low, f'{path}: must be {"at least" if itself else "above"} {least}, got {value}'
  yield from _arguments(c['method'])
  model = c['model']
  scale = model.get('scale', 0.0)
  yield isinstance(scale, (int, float)) and not 0 <= scale < math.inf, (
      f'model.scale: must be at least 0 and finite, got {scale}')
  for name in _SIZES if model['name'] == 'transformer' else ():
    value = model.get(name, 1)
    yield not isinstance(value, int) or value < 1, (
        f'model.{name}: must be an integer of at least 1, got {value}')
  yield from _decay(c)
  theta = model.get('theta', 1.0)
  yield isinstance(theta, (int, float)) and not 0 < theta < math.inf, (
      f'model.theta: must be above 0 and finite, got {theta}')
  steps, every = c['clone']['steps'], c['clone']['every']
  yield steps > 0 and steps % every != 0, (
      f'clone.every={every} must divide clone.steps={steps}')
  yield math.isinf(c['sample']['temperature']), 'sample.temperature: must be finite, got inf'


def _decay(c):
  """A fall of the learning rate that is one."""
  update, critic, decay = c['train'], c['method']['critic'], c['train']['decay']
  if decay['name'] == 'constant':
    return
  floor = decay.get('floor', 0.0)
  yield isinstance(floor, (int, float)) and not 0 <= floor <= 1, (
      f'train.decay.floor: must be in [0, 1], a share of the learning rate; got {floor}')
  passes = min(update['epochs'], critic.get('updates', update['epochs']))
  length = decay.get('length', c['steps'] * passes * update['minibatches'])
  start = decay.get('start', update['warmup'])
  if isinstance(length, int) and isinstance(start, int):
    yield not 0 <= start < length, (
        f'train.decay begins at update {start}, by default train.warmup, and is over at update '
        f'{length}, by default the last one: it must begin before that, and not before 0')


def _arguments(method):
  """Arguments of slots, labelled or not. Their types are those of functions: grpo/slots.py."""
  slots = [(name, name, slot) for name, slot in method.items() if 'name' in _mapping(slot)]
  slots += [(name, f'{name}.{label}', slot) for name, section in method.items()
            for label, slot in _mapping(section).items() if 'name' in _mapping(slot)]
  for name, path, slot in slots:
    whole = () if name == 'returns' else _WHOLE  # the `length` of a return is a word
    for argument in whole + _CRITIC * (name == 'critic'):
      value = slot.get(argument, 0)
      wrong = isinstance(value, (str, bool, list, tuple, type(None)))
      wrong |= argument in _WHOLE and isinstance(value, float)
      yield wrong, (f'method.{path}.{argument}: must be '
                    f'{"an integer" if argument in _WHOLE else "a number"}, got {value!r}')
    for argument, least, itself, most in _ARGUMENTS:
      value = slot.get(argument)
      if (not isinstance(value, (int, float)) or isinstance(value, bool)
          or f'{name}.{slot["name"]}' in _SIGNED):
        continue
      text = f'{"at least" if itself else "above"} {least}'
      text += '' if most == math.inf else f' and at most {most}'
      low = value < least if itself else value <= least
      yield low or value > most, f'method.{path}.{argument}: must be {text}, got {value}'


def _mapping(value):
  return value if isinstance(value, Mapping) else {}


def _bounds(c):
  """Upper bounds of sizes."""
  turns = [f'task.{k}' for k in c['task'] if k in _TURNS or k.endswith('_at')]
  turns += ['window.turns', 'window.carry', 'window.summary', 'window.compactions']
  most = {f'task.{k}': THINGS for k in c['task']} | {path: TURNS for path in turns}
  for path, bound in most.items():
    value = _at(c, path)
    yield isinstance(value, int) and value > bound, (
        f'{path}: must be at most {bound}, got {value}')
  for name in _BATCHES:
    prompts, group = c[name]['prompts'], c[name].get('group', 1)
    yield prompts * group > EPISODES, (
        f'{name}: prompts x group must be at most {EPISODES} episodes, got {prompts} x {group}')


def leaves(tree, prefix=''):
  """(dotted path, value) of every field of nested dicts."""
  for key, value in tree.items():
    if isinstance(value, Mapping):
      yield from leaves(value, f'{prefix}{key}.')
    else:
      yield prefix + key, value


def _at(tree, path):
  """Value at a dotted path, or None."""
  for key in path.split('.'):
    tree = tree.get(key) if isinstance(tree, Mapping) else None
  return tree
