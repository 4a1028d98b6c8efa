"""Numbers of docs/speed.md are those of docs/speed.csv."""

import csv
import pathlib
import statistics

from absl.testing import absltest

DOCS = pathlib.Path(__file__).resolve().parents[1] / 'docs'


def medians():
  """(case, who) -> column -> median over its processes."""
  found = {}
  for row in csv.DictReader((DOCS / 'speed.csv').read_text(encoding='utf-8').splitlines()):
    found.setdefault((row['work'], row['who']), []).append(row)
  return {key: {c: statistics.median(float(r[c]) for r in rows) for c in (
      'step_s', 'peak_rss_mib', 'start_to_first_step_s',
      *(['share_step'] if key[1] == 'grpo' else []))}
          for key, rows in found.items()}


def table(found):
  """The lines of the page's table."""
  lines = []
  for case in ('small', 'medium', 'long-completion', 'long-prompt'):
    own = found[case, 'grpo']
    ratio = lambda who: (f'{found[case, who]["step_s"] / own["step_s"]:.2f}'
                         if (case, who) in found else '')
    lines.append(f'| {case} | {own["step_s"]:.2f} | {ratio("trl")} | {ratio("trl-bf16")} | '
                 f'{ratio("tunix")} | {100 * own["share_step"]:.0f} % | '
                 f'{own["peak_rss_mib"] / found[case, "trl"]["peak_rss_mib"]:.2f} |')
  return lines


class SpeedDocsTest(absltest.TestCase):

  def test_table_and_first_steps(self):
    page, found = (DOCS / 'speed.md').read_text(encoding='utf-8'), medians()
    for line in table(found):
      self.assertIn(line, page)
    first = lambda who: f'{found["small", who]["start_to_first_step_s"]:.1f}'
    self.assertIn(f'small takes {first("grpo")} s', page)
    self.assertIn(f'(TRL {first("trl")}, tunix {first("tunix")})', page)


if __name__ == '__main__':
  absltest.main()
