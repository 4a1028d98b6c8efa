"""The ablations of docs/sao.md: each is a legal command, changes its part, keeps the rollouts."""

import pathlib
import re
import shlex

from absl import flags
from absl.testing import absltest
from absl.testing import parameterized
from ml_collections import config_flags

from configs import sao
from grpo import build
from grpo import check

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = (ROOT / 'docs' / 'sao.md').read_text(encoding='utf-8').split('\n## Ablations\n')[1]
ROWS = dict(re.findall(r'^\| ([^|]+) \| `(--[^`]+)`', TEXT, re.MULTILINE))
# What each of them is without, as dotted fields of the method or the sample.
CHANGES = {
    'the mask': {'method.surrogate.low', 'method.surrogate.high'},
    'the second update': {'method.critic.updates'},
    'frozen attention': {'method.critic.freeze'},
    'warm-up': {'method.critic.warmup'},
    'the rule for lambda': {'method.returns.alpha'},
    'single rollouts': {'sample.prompts', 'sample.group'},
    'the critic': {'method.critic', 'method.returns', 'method.advantages.name'}}


def resolve(overrides: str = '', size: str = 'small'):
  """Nested dicts of configs/sao.py with the flags of a row, read as the commands read them."""
  values = flags.FlagValues()
  given = ['train', *shlex.split(overrides)]
  config_flags.DEFINE_config_dict('config', sao.get_config(size), flag_values=values,
                                  lock_config=True, sys_argv=given)
  values(given)
  return build.plain(values.config)


def leaves(tree, path=''):
  """Dotted paths of what is no dict, and their values."""
  if not isinstance(tree, dict):
    return {path: tree}
  return {k: v for key, value in tree.items()
          for k, v in leaves(value, f'{path}.{key}'.lstrip('.')).items()}


class AblationsTest(parameterized.TestCase):

  def test_every_row_is_known(self):
    self.assertEqual(set(ROWS), set(CHANGES))

  @parameterized.product(part=sorted(CHANGES), size=('smoke', 'small'))
  def test_a_row_takes_away_its_part_and_keeps_the_rollouts(self, part, size):
    plain, made = resolve(size=size), resolve(ROWS[part], size)
    check.check(made)
    build.parts(made)
    old, new = leaves(plain), leaves(made)
    changed = {k for k in old | new if old.get(k) != new.get(k)}
    self.assertNotEmpty(changed)
    for path in changed:
      self.assertTrue(path.startswith(tuple(CHANGES[part])), path)
    for field in CHANGES[part]:
      self.assertTrue(any(path.startswith(field) for path in changed), field)
    if part == 'single rollouts' and size == 'smoke':
      return  # its numbers are those of size small
    count = lambda c: c['sample']['prompts'] * c['sample']['group']
    self.assertEqual(count(made), count(plain))


if __name__ == '__main__':
  absltest.main()
