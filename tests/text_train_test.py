"""Training on answers that are graded on the host: one program, resumed, and with bad verifiers."""

import json
import pathlib
import tempfile
import time
from unittest import mock

from absl.testing import absltest
import numpy as np
import pytest

from configs import base
from configs import llm
from grpo import build
from grpo import check
from grpo.learn import loop
from grpo.learn import sinks
from grpo.study import evaluation
from grpo.verify import workers
from tests import letters


class TrainTest(absltest.TestCase):
  """One compiled program for all: the task stays, and what grades behind it is changed."""

  @classmethod
  def setUpClass(cls):
    super().setUpClass()
    cls.grader = letters.Grader()
    task = letters.made(cls.grader, action=2)
    cls.enterClassContext(mock.patch.object(build, '_task', lambda *_: (task, task.knobs)))

  def setUp(self):
    super().setUp()
    self.grader.asked, self.grader.wait = [], None

  def config(self, **fields):
    c = base.get_config('smoke,arithmetic')
    source = base.slot('rows', path='')
    c.task = dict(name='text', system='', action=2, cut='wrong', problems=source)
    c.model, c.clone.steps, c.window.turns = base.slot('tabular'), 0, 1
    c.steps, c.log_every, c.checkpoint.every = 8, 2, 2
    c.sample.prompts, c.sample.group, c.train.minibatches = 8, 8, 1
    c.train.learning_rate, c.evaluate.prompts, c.evaluate.group = 0.5, 8, 1
    c.update_from_flattened_dict(fields)
    c = build.plain(c)
    check.check(c)
    return c

  def run_in(self, folder, **fields):
    return loop.run(self.config(**fields), seeds=[0, 1], workdir=folder)

  def test_it_learns_and_a_resumed_run_is_the_same(self):
    work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
    whole = self.run_in(work / 'whole')
    self.assertEqual(whole['bad_step'], [-1, -1])
    self.assertGreater(whole['sampled'][-1].mean(), whole['sampled'][1].mean() + 0.2)
    # One call a step and one an evaluation, with all seeds: 8 + 1 + 4.
    self.assertLen(self.grader.asked, 13)
    calls = 0

    def stop():  # the host is killed in the middle of a step
      nonlocal calls
      calls += 1
      if calls == 7:
        raise RuntimeError('the verifier is broken')

    self.grader.wait = stop
    with self.assertRaisesRegex(Exception, 'the verifier is broken'):
      self.run_in(work / 'cut')
    self.grader.wait = None
    again = self.run_in(work / 'cut')
    np.testing.assert_array_equal(again['sampled'], whole['sampled'])
    a, b = (sinks.read(work / name / 'metrics.jsonl') for name in ('whole', 'cut'))
    self.assertEqual(a, b)
    self.assertGreater(max(record.get('reward/unscorable', 0) for record in a), 0)
    # What could not be scored was sampled all the same, and not trained on.
    self.assertEqual(whole['sampled_tokens'], whole['context_tokens'])
    self.assertLess(whole['trained_tokens'], whole['sampled_tokens'])

  def test_a_checker_that_never_answers_ends_with_its_limit(self):
    with workers.Pool('plain', size=2, seconds=0.2) as pool:
      pool.map([('echo', 1)] * 2)  # started
      self.grader.wait = lambda: self.assertEqual(
          [r.error for r in pool.map([('sleep', 60)] * 2)], ['time', 'time'])
      start = time.monotonic()
      out = self.run_in(pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / 'run')
    self.assertEqual(out['bad_step'], [-1, -1])
    self.assertLen(self.grader.asked, 13)
    self.assertLess(time.monotonic() - start, 60)

  @pytest.mark.slow
  def test_answers_of_all_devices_are_graded_together(self):
    work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
    one = self.run_in(work / 'one')
    calls = len(self.grader.asked)
    two = self.run_in(work / 'two', **{'mesh.data': 2})
    self.assertLen(self.grader.asked, 2 * calls)
    np.testing.assert_allclose(one['sampled'], two['sampled'], atol=1e-6)

  def test_refusals(self):
    with self.assertRaisesRegex(ValueError, 'task.problems: a slot'):
      c = self.config()
      c['task']['problems'] = 'gym'
      check.check(c)


class ModelTest(absltest.TestCase):

  def test_a_language_model_and_an_exact_verifier(self):
    for library in ('tokenizers', 'jinja2', 'safetensors'):
      pytest.importorskip(library)
    from tests import llm_test  # it needs them
    work = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
    (work / 'model').mkdir()
    llm_test.tiny(work / 'model')
    rows = work / 'rows.jsonl'  # what a random model may say
    rows.write_text('\n'.join(json.dumps(dict(question=str(i), answer='1')) for i in range(6)))
    c = llm.get_config('smollm2_chain_sum')
    c.task = llm._text(action=2, cut='scored', problems=base.slot(
        'rows', path=str(rows), verifier='exact', share=0.3))
    c.model.path, c.model.rank, c.model.scan, c.steps = str(work / 'model'), 0, False, 4
    c.log_every, c.sample.prompts, c.sample.group, c.checkpoint.every = 2, 4, 8, 2
    c.train.learning_rate, c.evaluate.prompts, c.evaluate.group = 1e-2, 4, 2
    check.check(build.plain(c))
    out = loop.run(c, seeds=[0], workdir=work / 'run')
    self.assertEqual(out['bad_step'], [-1])
    kept = sinks.read(work / 'run' / 'metrics.jsonl')
    self.assertEqual(kept[-1]['reward/unscorable'], 0)
    again = loop.run(c, seeds=[0], workdir=work / 'run')  # restored, and nothing left to do
    np.testing.assert_array_equal(again['success'], out['success'])
    self.assertEqual(evaluation.run(work / 'run', prompts=4, repeats=2, passes=[2])['seeds'][0][
        'unscorable'], 0)


if __name__ == '__main__':
  absltest.main()
