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
    ('length slots every trees width samples count window max_length prompt', 1, True,
     math.inf)) for name in names.split())
# Of these, and of a critic, what other rules compare before functions see it.
_WHOLE = ('length', 'slots', 'every', 'trees', 'width', 'samples', 'updates', 'warmup')
_CRITIC = ('lam', 'discount', 'learning_rate', 'clip')
_SIGNED = ('shape.clip',)  # where these names mean something else: bounds of a reward
# Bounds that may be infinite, as their docstring says; a large number does elsewhere.
_OPEN = ('method.surrogate.up_high', 'method.surrogate.down_high')
# Slot, its name, and two arguments with their defaults of which the first may not be the larger.
PAIRS = (
    ('shape', 'clip', ('low', None), ('high', None)),
    ('filter', 'pass_rate', ('low', 0.2), ('high', 0.8)),
    ('surrogate', 'two_bands', ('up_low', None), ('up_high', None)),
    ('surrogate', 'two_bands', ('down_low', None), ('down_high', None)),
    ('correction', 'tis', ('floor', 0.0), ('cap', 2.0)),
    ('correction', 'icepop', ('low', 0.5), ('high', 5.0)),
    ('gate', 'clip_cov', ('low', 1.0), ('high', 5.0)),
    ('memory', 'prompt_tracker', ('least', 0.875), ('most', 0.96)))
# Sizes of a change of unit. Statistics of rewards are squared in float32: beyond 1e19 a variance is
# infinite and below 1e-19 it is 0, and either way an advantage of 0 would look like a flat group.
_UNIT = (1e-6, 1e6)
# Slot, its name, argument, and the numbers that it must be above and below.
_BETWEEN = (('surrogate', 'ppo_clip', 'dual', 1, math.inf),
            ('memory', 'prompt_tracker', 'least', 0, 1), ('memory', 'prompt_tracker', 'most', 0, 1))
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
    for one in value if isinstance(value, (list, tuple)) else (value,):
      yield isinstance(one, float) and math.isnan(one), f'{path}: must be a number, got nan'
      yield (isinstance(one, float) and math.isinf(one) and path.startswith('method.')
             and path not in _OPEN), f'{path}: must be finite, got {one}'
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
  yield from _together(c['method'])
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
  for name, path, slot in _slots(method):
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


def _together(method):
  """Arguments of a slot that bound each other, or whose ends are no others'."""
  for name, path, slot in _slots(method):
    for place, of, argument, above, below in _BETWEEN:
      value = slot.get(argument)
      if (place, of) == (name, slot['name']) and _number(value):
        text = '' if below == math.inf else f' and below {below}'
        yield not above < value < below, (
            f'method.{path}.{argument}: must be above {above}{text}, got {value}')
    for place, of, *pair in PAIRS:
      if (place, of) == (name, slot['name']):
        yield _reversed(path, of, *((k, slot.get(k, default)) for k, default in pair))
    if (name, slot['name']) == ('shape', 'scale') and _number(slot.get('factor')):
      yield not _UNIT[0] <= abs(slot['factor']) <= _UNIT[1], (
          f'method.{path}.factor: must be from {_UNIT[0]:g} to {_UNIT[1]:g} in size, got '
          f'{slot["factor"]}')
    if (name, slot['name']) == ('shape', 'kl_in_reward') and _number(slot.get('coef')):
      yield abs(slot['coef']) > _UNIT[1], (
          f'method.{path}.coef: must be at most {_UNIT[1]:g} in size, got {slot["coef"]}')
    if (name, slot['name'], slot.get('kind')) == ('correction', 'reject', 'k1'):
      high = slot.get('high')
      yield _number(high) and high <= 0, f'method.{path}.high: must be above 0, got {high}'
      low = slot.get('low')
      low = 1.0 / high if low is None and _number(high) else low
      yield _reversed(path, 'reject', ('low', low), ('high', high))


def _reversed(path, name, low, high):
  wrong = _number(low[1]) and _number(high[1]) and low[1] > high[1]
  return wrong, (f'method.{path}: {name} goes from {low[0]}={low[1]} to {high[0]}={high[1]}: '
                 f'nothing; {low[0]} must be at most {high[0]}')


def _slots(method):
  """(section, path, slot) of all slots, labelled or not."""
  found = [(name, name, slot) for name, slot in method.items() if 'name' in _mapping(slot)]
  return found + [(name, f'{name}.{label}', slot) for name, section in method.items()
                  for label, slot in _mapping(section).items() if 'name' in _mapping(slot)]


def _number(value):
  return isinstance(value, (int, float)) and not isinstance(value, bool)


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
