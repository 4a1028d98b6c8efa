"""The experiment on knobs: its grid is every stressor, and its figure and text are its results."""

import itertools
import pathlib
import re

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np
import pytest

from experiments.knobs import plot
from experiments.knobs import run
from scripts import task_pages

README = pathlib.Path(plot.HERE) / 'README.md'


def expected(size):
  """All (task, knob, value, policy) of a size."""
  out = set()
  for name in run.SMOKE if size == 'smoke' else run.TASKS:
    todo = run.settings(name, size)
    out |= {(name, *point, policy) for policy in run.POLICIES
            for point in (run.reached(name, todo) if policy == 'trained' else todo)}
  for case, (name, *_) in run.HELPS.items():
    if size != 'smoke' or name in run.SMOKE:
      out |= {(case, *point, policy) for policy in run.POLICIES
              for point in run.help_settings(case, size)}
  for name in run.CASES if size != 'smoke' else run.SMOKE:
    out |= {(case, knob, value, policy) for case in run.CASES[name]
            for knob, value in run.window_settings(name, size) for policy in run.POLICIES}
  return out


def found(rows):
  return {(r['task'], r['knob'], r['value'], r['policy']): r['success'] for r in rows}


class KnobsTest(parameterized.TestCase):

  def assert_one_way(self, name, knob, policy, grows, least=0):
    """No value is better than an easier one by more than two standard errors of the difference.

    Returns the scores, by value; those of values below `least` are left out.
    """
    points = sorted((r['value'], r['success'], r['episodes']) for r in plot.read(plot.HERE)
                    if (r['task'], r['knob'], r['policy']) == (name, knob, policy)
                    and r['value'] >= least)
    self.assertGreater(len(points), 1)
    sign = 1 if grows == 'rises' else -1
    for (_, before, n), (value, after, m) in itertools.combinations(points, 2):
      error = np.sqrt(before * (1 - before) / n + after * (1 - after) / m)
      self.assertGreaterEqual(sign * (after - before), -2 * error, (policy, value, points))
    return [score for _, score, _ in points]

  @parameterized.parameters(*run.TASKS)
  def test_every_stressor_of_the_task_is_varied_and_starts_easy(self, name):
    kinds = {k for k, entry in task_pages.notes()['knobs'].items() if entry['kind'] == 'stressor'}
    c = run.config(name, 'small')
    self.assertEqual(set(run.TASKS[name][1]), kinds & set(c.task))
    for knob, values in run.TASKS[name][1].items():
      self.assertEqual(sorted(values), list(values), knob)
      self.assertIn(c.task[knob], values, knob)

  def test_committed_results_are_complete_and_paired(self):
    scores = found(plot.read(plot.HERE))
    self.assertEqual(set(scores), expected('small'))
    # Nothing but the knob differs, so the easy case has one score in all its rows.
    for name in run.TASKS:
      c = run.config(name, 'small')
      for policy in run.POLICIES:
        easy = {scores[name, knob, c.task[knob], policy] for knob in run.TASKS[name][1]}
        self.assertLen(easy, 1, f'{name}, {policy}')

  @parameterized.parameters(*((name, knob) for name in run.TASKS for knob in run.TASKS[name][1]))
  def test_from_the_easy_case_on_success_goes_one_way(self, name, knob):
    # Fewer turns than in the easy case are not easier: there is less time for the work.
    least = run.config(name, 'small').task[knob] if knob == 'horizon' else 0
    grows = task_pages.notes()['knobs'][knob]['grows']
    self.assertIn(grows, ('rises', 'falls'))
    for policy in run.POLICIES:
      self.assert_one_way(name, knob, policy, grows, least)

  @parameterized.parameters(*run.HELPS)
  def test_where_a_knob_can_help_it_does(self, case):
    knob, grows = run.HELPS[case][2], task_pages.notes()['knobs'][run.HELPS[case][2]]['grows']
    self.assertEqual(grows, 'rises')
    for policy in run.POLICIES:
      line = self.assert_one_way(case, knob, policy, grows)
      self.assertEqual(line[-1] - line[0] > 0.1, policy == 'trained', (policy, line))

  @parameterized.parameters(*((name, case) for name in run.CASES for case in run.CASES[name]))
  def test_windows_touch_only_who_reads_them_and_what_is_lost_is_missed(self, name, case):
    scores, todo = found(plot.read(plot.HERE)), run.window_settings(name, 'small')
    for policy in ('expert', 'random'):
      self.assertLen({scores[case, knob, value, policy] for knob, value in todo}, 1)
    for knob in dict(todo):
      line = [scores[case, knob, value, 'trained'] for k, value in todo if k == knob]
      grows = task_pages.notes()['windows'][knob.split('.')[1]]['grows']
      self.assert_one_way(case, knob, 'trained', grows)
      self.assertEqual(line[0] - line[-1] > 0.1, case != 'horizon_cue', (knob, line))

  def test_figure_has_a_panel_for_each_knob(self):
    figure = plot.figure(plot.HERE)
    windows = sum(len(dict(run.window_settings(name, 'small'))) * len(cases)
                  for name, cases in run.CASES.items())
    self.assertLen(figure.axes, sum(len(grid) for _, grid in run.TASKS.values()) + windows
                   + len(run.HELPS))
    self.assertTrue((plot.HERE / 'figure.png').exists())

  def test_numbers_of_the_answer_are_those_of_the_results(self):
    scores = found(plot.read(plot.HERE))
    answer = README.read_text(encoding='utf-8').split('<!-- answer -->')[1]
    rows = re.findall(r'^\| `(\w+)` \| `([\w.]+)` \| ([\d.]+) \| (.*) \|$', answer, re.M)
    self.assertNotEmpty(rows)
    for name, knob, value, texts in rows:
      for policy, text in zip(run.POLICIES, texts.split(' | '), strict=True):
        key = (name, knob, float(value), policy)
        self.assertEqual(text, f'{scores[key]:.3f}' if key in scores else '', str(key))

  @pytest.mark.slow
  def test_smoke(self):
    calls = []
    rows = run.rows('smoke', lambda done, total: calls.append((done, total)))
    self.assertEqual(set(found(rows)), expected('smoke'))
    self.assertEqual(calls, [(i, 7) for i in range(1, 8)])
    scores = found(rows)
    for key, score in scores.items():
      if key[-1] == 'expert':
        self.assertEqual(score, 1.0, str(key))


if __name__ == '__main__':
  absltest.main()
