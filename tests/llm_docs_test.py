"""Numbers of docs/llm.md are those of the files beside it."""

import csv
import pathlib
import statistics

from absl.testing import absltest

DOCS = pathlib.Path(__file__).resolve().parents[1] / 'docs'
PAGE = (DOCS / 'llm.md').read_text(encoding='utf-8')


def rows(name):
  return list(csv.DictReader((DOCS / name).read_text(encoding='utf-8').splitlines()))


class LlmDocsTest(absltest.TestCase):

  def test_ways_to_score(self):
    found = {}
    for row in rows('llm_scores.csv'):
      self.assertEqual((row['rows'], row['positions'], row['width']), ('64', '16', '576'))
      found.setdefault((row['vocab'], row['head']), {})[row['way']] = row
    self.assertLen(found, 4)
    cell = lambda row: f'{row["temp_mib"]} MiB, {row["cpu_seconds"]} s'
    for (vocab, head), ways in found.items():
      self.assertIn(f'| {vocab} | {head} | {cell(ways["positions"])} | {cell(ways["blocks"])} |',
                    PAGE)
      self.assertLess(int(ways['blocks']['temp_mib']), int(ways['positions']['temp_mib']))

  def test_sampling_against_a_plain_decoder(self):
    rate = {name: statistics.median(float(row['seconds']) for row in rows('llm_speed.csv')
                                    if row['decoder'] == name) for name in ('ours', 'plain')}
    ratio = rate['plain'] / rate['ours']
    self.assertIn(f'{ratio:.1f} times the plain decoder', PAGE)
    self.assertGreater(ratio, 2.0)

  def test_padding_of_sums(self):
    text = DOCS.parent / 'experiments' / 'real_math' / 'results.csv'
    with open(text, encoding='utf-8') as file:
      arms = [row for row in csv.DictReader(file) if row['arm'] == 'grpo']
    used = [float(row['context_tokens']) / float(row['rollouts']) for row in arms]
    mean = statistics.mean(used)
    self.assertIn(f'of 16 places for an answer {mean:.1f} are used', ' '.join(PAGE.split()))
    self.assertAlmostEqual((16 - mean) / 60, 0.1, delta=0.02)


if __name__ == '__main__':
  absltest.main()
