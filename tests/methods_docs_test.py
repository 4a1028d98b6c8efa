"""docs/methods.md is what the code says, and each config differs from its neighbour as stated."""

import contextlib
import io
import pathlib
import tempfile
import types
from unittest import mock

from absl import flags
from absl.testing import absltest
from absl.testing import flagsaver
from absl.testing import parameterized

from scripts import cli
from scripts import docs


class MethodsDocsTest(parameterized.TestCase):

  def test_page_is_up_to_date(self):
    self.assertEqual(docs.PAGE.read_text(encoding='utf-8'), docs.page(),
                     'run python -m scripts.docs')

  @parameterized.parameters(*docs.names())
  def test_every_config_has_a_section_and_a_row(self, name):
    page = docs.PAGE.read_text(encoding='utf-8')
    self.assertIn(f'\n## {name}\n', page)
    self.assertIn(f'\n| [{name}](#{name}) |', page)
    self.assertIn(f'(../configs/{name}.py)', page)

  @parameterized.parameters(*docs.names())
  def test_a_config_differs_from_its_neighbour_in_the_stated_slots_only(self, name):
    note = docs.notes()['methods'][name]
    if name == docs.BASE:
      self.assertEqual((note['neighbour'], note['slots']), ('', []))
      return
    self.assertNotEqual(note['neighbour'], name)
    self.assertSameElements(docs.differences(name, note['neighbour']), note['slots'])
    self.assertNotEmpty(note['slots'])

  def test_neighbours_lead_to_the_base(self):
    entries = docs.notes()['methods']
    for name in entries:
      seen = [name]
      while entries[seen[-1]]['neighbour']:
        self.assertNotIn(entries[seen[-1]]['neighbour'], seen)
        seen.append(entries[seen[-1]]['neighbour'])
      self.assertEqual(seen[-1], docs.BASE)

  @parameterized.parameters(*docs.CODES)
  def test_other_codes_stand_in_the_section_of_their_method(self, code):
    page, said = docs.PAGE.read_text(encoding='utf-8'), 0
    for name, note in docs.notes()['methods'].items():
      if code in note:
        section = page.split(f'\n## {name}\n')[1].split('\n## ')[0]
        self.assertIn(f'- {docs.CODES[code]}: {note[code]}', section)
        said += 1
    self.assertGreater(said, 5)

  def test_what_is_left_out_has_a_reason(self):
    page = docs.PAGE.read_text(encoding='utf-8')
    for name, reason in docs.notes()['left_out'].items():
      self.assertGreater(len(reason), 20, name)
      self.assertIn(f'- {name}: {reason}.', page)

  def test_check_tells_of_drift_and_writes_nothing(self):
    flags.FLAGS.mark_as_parsed()  # not parsed: another test may have brought in required flags
    with tempfile.TemporaryDirectory() as folder:
      page = pathlib.Path(folder) / 'methods.md'
      page.write_text('old\n')
      out = io.StringIO()
      same = docs.task_pages.PAGE.read_text(encoding='utf-8')
      with (mock.patch.object(docs, 'PAGE', page), flagsaver.flagsaver(check=True),
            mock.patch.object(docs.task_pages, 'page', lambda: same),
            contextlib.redirect_stdout(out)):
        self.assertEqual(docs.main([]), 1)
      self.assertEqual(page.read_text(), 'old\n')
    old, well = out.getvalue().splitlines()
    self.assertIn('python -m scripts.docs', old)
    self.assertEqual(well, 'up to date: docs/tasks.md')

  def test_a_source_ends_in_one_full_stop_and_has_to_be_there(self):
    said = 'Mine: it is new.\n\n{}\n\n  python -m scripts.train --config=configs/mine.py:smoke'
    for text, want in (('No paper: section 2 of NOTES.', 'No paper: section 2 of NOTES'),
                       ('arXiv:2402.03300, eq. 3', 'arXiv:2402.03300, eq. 3')):
      with mock.patch.object(docs, 'module', lambda _, t=text: types.SimpleNamespace(
          __doc__=said.format(t))):
        self.assertEqual(docs.about('mine')[2], want)
    for text in ('Mine: it is new.', None):
      with mock.patch.object(docs, 'module', lambda _, t=text: types.SimpleNamespace(__doc__=t)):
        with self.assertRaisesRegex(cli.UsageError, 'configs/mine.py: .* "No paper: ..."'):
          docs.about('mine')
    self.assertNotRegex(docs.PAGE.read_text(encoding='utf-8'), r'(?<!\.)\.\. ')

  def test_inherited_slots_and_fields_of_a_critic_are_explained(self):
    page = docs.PAGE.read_text(encoding='utf-8')
    section = lambda name: page.split(f'\n## {name}\n')[1].split('\n## ')[0]
    self.assertIn('| slot; all others as in [grpo](#grpo) | choice |', section('gspo'))
    self.assertIn('| slot | choice |', section('grpo'))
    for text in ('updates: K, critic passes', 'warmup: steps in which only the critic learns',
                 'freeze: parameters whose path', '(sao.md)', 'lambda 1 (`critic.lam`)'):
      self.assertIn(text, section('sao'))
    self.assertIn("  lam: lambda of the critic's targets", section('ppo'))

  def test_a_config_without_notes_is_refused(self):
    with mock.patch.object(docs, 'names', lambda: ['grpo', 'nothing']):
      with self.assertRaisesRegex(cli.UsageError, 'nothing'):
        docs.notes()


if __name__ == '__main__':
  absltest.main()
