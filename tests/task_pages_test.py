"""docs/tasks.md is what the code says, and says it of every task and knob."""

import re
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import pytest

from grpo import tasks
from grpo.tasks import interventions
from scripts import cli
from scripts import task_pages
from tests import episodes as runs


def written():
  return task_pages.PAGE.read_text(encoding='utf-8')


def shown():
  """Episodes as they stand in the page."""
  found = re.findall(r'^## (\w+)$|^An episode of the expert[^\n]*\n\n```text\n(.*?)\n```$',
                     written(), re.M | re.S)
  names = [name for name, _ in found if name in tasks.__all__]
  return dict(zip(names, [text for _, text in found if text], strict=True))


class TaskPagesTest(parameterized.TestCase):

  def test_page_is_up_to_date_but_for_the_episodes(self):
    self.assertEqual(written(), task_pages.page(shown()), 'run python -m scripts.docs')

  # The cheapest and the newest; all of them are in the slow test.
  @parameterized.parameters('horizon', 'triage')
  def test_an_episode_is_that_of_the_page(self, name):
    self.assertEqual(shown()[name], task_pages.example(name, task_pages.notes()['examples'][name]))

  @pytest.mark.slow
  def test_page_is_up_to_date(self):
    self.assertEqual(written(), task_pages.page(), 'run python -m scripts.docs')

  @parameterized.parameters(*tasks.__all__)
  def test_every_task_has_a_section_with_its_knobs(self, name):
    section = written().split(f'\n## {name}\n')[1].split('\n## ')[0]
    for knob, value in runs.build(name).knobs.items():
      self.assertIn(f'\n| `{knob}` | {value:g} |', section)
    self.assertIn(shown()[name].splitlines()[0], section)
    self.assertIn('loor', section)
    self.assertTrue(shown()[name].endswith('[solved, reward 1.00]'))

  def test_every_stressor_has_one_meaning(self):
    knobs = task_pages.notes()['knobs']
    stressors = [entry['stressor'] for entry in knobs.values() if entry['kind'] == 'stressor']
    self.assertLen(set(stressors), len(stressors))
    for entry in knobs.values():
      self.assertIn(entry['kind'], task_pages.KINDS)
      self.assertEqual(set(entry), {'kind', 'stressor', 'grows'})
      self.assertIn(entry['grows'], ('falls', 'rises', 'none'))
      self.assertTrue(entry['kind'] != 'stressor' or entry['grows'] != 'none')
    for knob in interventions.KNOBS + tuple(f'window.{x}' for x in task_pages.notes()['windows']):
      self.assertIn(f'| `{knob}` |', written())

  def test_a_knob_without_an_entry_is_refused(self):
    with mock.patch.object(interventions, 'KNOBS', ('nothing_at',)):
      with self.assertRaisesRegex(cli.UsageError, 'nothing_at'):
        task_pages.notes()


if __name__ == '__main__':
  absltest.main()
