"""Cells of the experiments: they resolve, pass every check, and play as many rollouts each."""

import collections
import json
import pathlib
import tempfile

from absl.testing import absltest
from absl.testing import parameterized

from experiments.chunk_length import sweep as chunk_length
from experiments.compaction import sweep as compaction
from experiments.entropy import sweep as entropy
from experiments.feedback import sweep as feedback
from experiments.horizon import sweep as horizon
from experiments.length_bias import sweep as length_bias
from experiments.methods import sweep
from grpo import build
from grpo import check
from grpo.learn import compiling
from scripts import cells
from scripts import cli
from scripts import docs
from scripts import experiment
from scripts import launch


def rollouts(plain, parts):
  """Episodes of a run that are played, trained on or not."""
  sample = plain['sample']
  rows = parts.branch.rows if parts.branch else sample['group']
  rows += sample['greedy'] + sample['reference']
  return sample['prompts'] * sample['over'] * rows * plain['steps']


class MethodsTest(parameterized.TestCase):

  @parameterized.parameters('smoke', 'small')
  def test_cells_are_legal_and_cost_the_same_rollouts(self, size):
    played, arms = collections.defaultdict(set), collections.defaultdict(list)
    for cell in sweep.cells(size):
      plain = build.plain(cells.resolve(cell))
      check.check(plain, seeds=len(cell.seeds))
      parts = build.parts(plain)
      played[cell.task].add(rollouts(plain, parts))
      arms[cell.task].append(cell.arm)
      positions = (plain['sample']['prompts'] * plain['sample']['group'] * plain['steps']
                   * parts.layout.stream)
      if cell.task == 'horizon' and size != 'smoke':  # where the model is a table
        work = positions * plain['model']['layers'] * plain['model']['hidden']
        self.assertLessEqual(work, compiling.BRIEF, f'{cell.arm} would compile for long')
    self.assertEqual({task: len(x) for task, x in played.items()}, dict(arithmetic=1, horizon=1))
    for task, found in arms.items() if size != 'smoke' else ():
      self.assertSameElements([*found, *sweep.LEFT_OUT[task]], [*docs.names(), 'placebo'])
      self.assertLen(set(found), len(found))

  @parameterized.parameters(*((task, arm) for task, arms in sweep.LEFT_OUT.items()
                              for arm in arms))
  def test_what_is_left_out_is_refused(self, task, arm):
    config = cells.resolve(cells.Cell('methods', arm, task, 'any', f'configs/{arm}.py:small,{task}',
                                      sweep.setting(task, 'small'), (0,)))
    with self.assertRaises(ValueError):
      plain = build.plain(config)
      check.check(plain)
      build.parts(plain)

  def test_ids_are_unique(self):
    plan = launch.make_plan(sweep.cells('small'))
    self.assertLen(plan, len(sweep.cells('small')))


class TrainedTest(parameterized.TestCase):

  @parameterized.product(sweep=(chunk_length, compaction, feedback, horizon, length_bias),
                         size=('smoke', 'small', 'full'))
  def test_cells_are_legal_and_play_the_same_rollouts(self, sweep, size):
    played, plan = set(), launch.make_plan(sweep.cells(size))
    for cell in plan.values():
      plain = build.plain(cells.resolve(cell))
      check.check(plain, seeds=len(cell.seeds))
      played.add(rollouts(plain, build.parts(plain, cell.scalars)))
      build.actor(build.plain(plain, cell.room), {k: v for t in cell.tests.values()
                                                  for k, v in t.items()})
    self.assertLen(played, 1)
    self.assertIn(sweep.BASE, {cell.arm for cell in plan.values()})

  def test_levels_are_rows(self):
    result = dict(arm='grpo', setting='L1 to L4', horizon=4, **{f'test/L{i}': i / 10
                                                               for i in range(1, 8)})
    made = horizon.rows([result], [])
    self.assertEqual([r['setting'] for r in made], [f'L{i}' for i in range(1, 8)])
    self.assertEqual([r['horizon'] for r in made], [1, 2, 3, 4, 6, 8, 10])
    self.assertEqual(made[4]['test_success'], 0.5)

  def test_the_same_windows_hold_what_arms_keep(self):
    # As many windows, the same new turns, and about as many tokens, with summaries or with turns.
    made = {cell.arm: build.actor(build.plain(cells.resolve(cell)))
            for cell in compaction.cells('small')}
    layouts = {arm: actor.layout for arm, actor in made.items()}
    self.assertEqual({x.segments for x in layouts.values()}, {3})
    self.assertEqual({x.turns for x in layouts.values()}, {4})
    kept, noted = layouts['keep_last'], layouts['rollouts']
    copied = lambda x: x.note + x.carry * x.turn
    self.assertEqual((copied(kept), copied(noted)), (6, 6))
    self.assertLen({x for arm, x in layouts.items() if arm != 'keep_last'}, 1)
    result = {'arm': 'rollouts', 'success_last': 0.5, 'test/whole': 0.25}
    rows = compaction.rows([result], [])
    self.assertEqual([(r['setting'], r['windows'], r['score']) for r in rows],
                     [('with compaction', 3, 0.5), ('without', 1, 0.25)])


class EntropyTest(parameterized.TestCase):

  @parameterized.parameters('smoke', 'small', 'full')
  def test_cells_are_legal_and_play_the_same_rollouts(self, size):
    played = set()
    for cell in entropy.cells(size):
      plain = build.plain(cells.resolve(cell))
      check.check(plain, seeds=len(cell.seeds))
      played.add(rollouts(plain, build.parts(plain)))
    self.assertLen(played, 1)

  def test_watched_metrics_are_curves(self):
    with tempfile.TemporaryDirectory() as folder:
      path = pathlib.Path(folder) / 'metrics.jsonl'
      lines = [dict(step=step, seed=seed, entropy=step + seed)
               for step in (5, 10) for seed in (0, 3)]
      path.write_text(''.join(json.dumps(line) + '\n' for line in lines))
      got = experiment._watched(path, ('entropy',), [3, 0], [0, 5, 10])
      self.assertEqual(got, {'curve/entropy': [[None, 8, 13], [None, 5, 10]]})
      with self.assertRaisesRegex(cli.UsageError, "no metric to watch 'entropi'.*'entropy'"):
        experiment._watched(path, ('entropi',), [3, 0], [0, 5])
    self.assertEqual(experiment._watched(path, (), [0], [0]), {})


if __name__ == '__main__':
  absltest.main()
