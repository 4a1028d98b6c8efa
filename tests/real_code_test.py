"""Figures about a pretrained model: numbers that READMEs quote, by hand and from committed CSVs."""

from absl.testing import absltest

from experiments.real_code import plot as real_code
from experiments.real_math import bridge
from grpo.study import frames


class RealCodeTest(absltest.TestCase):

  def test_rates_and_informative_groups(self):
    rows = [dict(samples=4, rewarded=1, solved=0), dict(samples=4, rewarded=4, solved=4)]
    mean, low, high = real_code.rate(rows, 'rewarded')
    self.assertEqual(mean, 5 / 8)
    self.assertTrue(0.3 < low < mean < high < 0.9)
    # Of 6 pairs of the first problem 3 hold the right answer; the second never differs.
    self.assertAlmostEqual(real_code.informative(rows, 2), 0.25)
    self.assertAlmostEqual(real_code.informative(rows, 4), 0.5)


  def test_what_the_readme_says(self):
    rows = frames.read(real_code.HERE / 'results.csv')
    text = (real_code.HERE / 'README.md').read_text()
    for source, in frames.unique(rows, 'source'):
      mine = frames.where(rows, source=source)
      count = lambda column, mine=mine: int(sum(row[column] for row in mine))
      told = sum(0 < row['rewarded'] < row['samples'] for row in mine)
      share = '{:.3f} [{:.3f}, {:.3f}]'.format(*real_code.rate(mine, 'rewarded'))
      self.assertIn(f"| {source} | {count('samples')} | {count('rewarded')}: {share} | "
                    f"{count('solved')} | {told} of {len(mine)} | {count('block')} | "
                    f"{count('ended')} | {count('unscorable')} |", text)


class BridgeTest(absltest.TestCase):

  def test_the_difference_of_two_shares(self):
    # Newcombe 1998, table II, (c): 9/10 - 3/10 by method 10.
    rows = [dict(arm=arm, seed=0, success_last=x) for arm, x in (('grpo', 0.3), ('sao', 0.9))]
    for got, want in zip(bridge.difference(rows, 10), (0.6, 0.1705, 0.8090)):
      self.assertAlmostEqual(got, want, places=4)
    self.assertIsNone(bridge.difference(rows[:1], 10))

  def test_what_the_readme_says_of_the_toy(self):
    rows, curves = bridge.read(bridge.quickstart.HERE, 'arithmetic')
    got = [round(x, 3) for x in bridge.difference(rows)]
    text = (bridge.HERE / 'README.md').read_text()
    self.assertIn('{:+.3f} [{:+.3f}, {:+.3f}]'.format(*got), text)
    self.assertEqual(max(row['step'] for row in curves), 25600)
    self.assertLen(bridge.figure().axes, 2)


if __name__ == '__main__':
  absltest.main()
