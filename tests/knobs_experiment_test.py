"""The experiment on knobs: its grid is every stressor, and its figure and text are its results."""

import pathlib
import re

from absl.testing import absltest
from absl.testing import parameterized
import pytest

from experiments.knobs import plot
from experiments.knobs import run
from scripts import task_pages

# Longer is no difficulty there: it gives more time. The answer in README.md says so.
TIME_AS_WELL = (('line', 'horizon'), ('meeting', 'horizon'))
README = pathlib.Path(plot.HERE) / 'README.md'


def expected(size):
  """All (task, knob, value, policy) of a size."""
  out = set()
  for name in run.SMOKE if size == 'smoke' else run.TASKS:
    room = run.config(name, size).task.max_turns
    out |= {(name, knob, value, policy) for knob, value in run.settings(name, size)
            for policy in run.POLICIES
            if policy != 'trained' or knob != 'horizon' or value <= room}
  for name in run.CASES if size != 'smoke' else run.SMOKE:
    out |= {(case, knob, value, policy) for case in run.CASES[name]
            for knob, value in run.window_settings(name, size) for policy in run.POLICIES}
  return out


def found(rows):
  return {(r['task'], r['knob'], r['value'], r['policy']): r['success'] for r in rows}


class KnobsTest(parameterized.TestCase):

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
  def test_success_goes_one_way_as_the_page_of_tasks_says(self, name, knob):
    scores, slack = found(plot.read(plot.HERE)), 0.045  # two standard errors of a difference
    grows = task_pages.notes()['knobs'][knob]['grows']
    for policy in ('expert', 'trained'):
      line = [scores[name, knob, value, policy] for value in run.TASKS[name][1][knob]
              if (name, knob, value, policy) in scores]
      steps = [b - a for a, b in zip(line, line[1:])]
      rises, falls = max(steps) > slack, min(steps) < -slack
      if (name, knob) in TIME_AS_WELL:
        self.assertTrue(policy == 'expert' or rises, 'the text says that it is no difficulty')
      else:
        self.assertFalse(rises and grows != 'rises', (policy, line))
        self.assertFalse(falls and grows != 'falls', (policy, line))

  @parameterized.parameters(*((name, case) for name in run.CASES for case in run.CASES[name]))
  def test_windows_touch_only_who_reads_them_and_what_is_lost_is_missed(self, name, case):
    scores, slack = found(plot.read(plot.HERE)), 0.045
    todo = run.window_settings(name, 'small')
    for policy in ('expert', 'random'):
      self.assertLen({scores[case, knob, value, policy] for knob, value in todo}, 1)
    for knob in dict(todo):
      line = [scores[case, knob, value, 'trained'] for k, value in todo if k == knob]
      self.assertLess(max(b - a for a, b in zip(line, line[1:])), slack, (knob, line))
      self.assertEqual(line[0] - line[-1] > 0.1, case != 'horizon_cue', (knob, line))

  def test_figure_has_a_panel_for_each_knob(self):
    figure = plot.figure(plot.HERE)
    windows = sum(len(dict(run.window_settings(name, 'small'))) * len(cases)
                  for name, cases in run.CASES.items())
    self.assertLen(figure.axes, sum(len(grid) for _, grid in run.TASKS.values()) + windows)
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
    self.assertEqual(calls, [(i, 4) for i in (1, 2, 3, 4)])
    scores = found(rows)
    for key, score in scores.items():
      if key[-1] == 'expert':
        self.assertEqual(score, 1.0, str(key))


if __name__ == '__main__':
  absltest.main()
