"""Configs of windows with summaries: layouts, refusals and counts; and the notes of the expert."""

import functools
import pathlib
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from configs import _tasks
from configs import base
from grpo import build
from grpo import check
from grpo import keys
from grpo import types
from grpo.learn import loop
from grpo.models import tabular
from grpo.rollout import compaction
from grpo.rollout import demos
from grpo.rollout import sampler
from grpo.study import evaluation

PARTS = ('tokens', 'valid', 'mask', 'state_id')


class ConfigTest(parameterized.TestCase):

  def layout(self, horizon=9, **window):
    c = base.get_config('smoke,horizon')
    c.task.horizon = horizon
    c.window.turns = 4
    c.window.update(window)
    return build.actor(c)

  def test_limit_of_compactions_cuts_the_episode(self):
    # Window 0 has 1 + 4 turns, each later one 4 more: 9 turns take one compaction.
    made = [self.layout(17, compactions=n).layout for n in (-1, 3, 2, 1, 0)]
    self.assertEqual([x.segments for x in made], [4, 4, 3, 2, 1])
    self.assertEqual([x.max_turns for x in made], [17, 17, 13, 9, 5])
    self.assertLen({x.length for x in made}, 1)

  def test_one_window_has_no_summary_and_the_same_words(self):
    several, one = self.layout(summary=3), self.layout(summary=3, turns=9)
    self.assertEqual((several.layout.summary, one.layout.summary), (3, 0))
    self.assertEqual(several.task.vocab, one.task.vocab)
    self.assertEqual(several.task.vocab[-2:], compaction.WORDS)
    self.assertEqual(self.layout(summary=3, compactions=0).layout.summary, 0)
    with self.assertRaisesRegex(ValueError, 'one window has no summary'):
      types.Layout(prompt=1, action=1, observation=1, turns=2, summary=2)
    with self.assertRaisesRegex(ValueError, 'no words of a note'):
      sampler.check(tabular.policy(99, 9), self.layout().task, several.layout)

  @parameterized.parameters(
      ('smoke,arithmetic', {}, 'task arithmetic has one turn'),
      ('smoke,triage', {'method.returns': base.slot('information_gain')}, 'asks for the answer'))
  def test_refused(self, spec, overrides, message):
    c = base.get_config(spec)
    c.window.summary = 2
    with self.assertRaisesRegex(ValueError, message):
      check.check(build.plain(c, {k: dict(v) for k, v in overrides.items()}))

  @parameterized.parameters(*_tasks.SEVERAL_TURNS)
  def test_every_task_of_several_turns(self, name):
    c = base.get_config(f'smoke,{name}')
    c.model = base.slot('tabular')
    c.window.turns, c.window.summary, c.window.compactions = 2, 3, 2
    check.check(build.plain(c))
    actor = build.actor(c)
    kwargs = dict(step=0, prompts=2, samples=3)
    shown = jax.eval_shape(lambda key: demos.demonstrate(
        actor.task, actor.layout, actor.knobs, key, noise=0.1, **kwargs), keys.root(0))
    sampled = jax.eval_shape(lambda key: sampler.sample(
        actor.policy, actor.policy.init(key), actor.task, actor.layout, actor.knobs, key,
        temperature=1.0, **kwargs), keys.root(0))
    self.assertEqual(shown.tokens.shape, sampled.tokens.shape)
    self.assertEqual(sampled.tokens.shape, (2, 3, actor.layout.segments, actor.layout.length))
    jax.tree.map(lambda a, b: self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype)), shown,
                 sampled)

  def test_a_run_counts_its_summaries_and_resumes_bitwise(self):
    c = base.get_config('smoke,horizon')
    c.model = base.slot('tabular', scale=0.5)
    c.task.horizon, c.window.turns, c.window.summary, c.train.summaries = 5, 2, 3, 0
    c.steps, c.log_every, c.checkpoint.every, c.clone.steps, c.evaluate.prompts = 4, 2, 2, 0, 4
    c.sample.lag = 1  # windows with summaries wait in the state too

    def interrupt(step, _):
      if step == 4:  # before the checkpoint of that step
        raise InterruptedError

    with tempfile.TemporaryDirectory() as folder:
      whole, broken = pathlib.Path(folder, 'whole'), pathlib.Path(folder, 'broken')
      run = functools.partial(loop.run, c, seeds=[1])
      out = run(workdir=whole)
      with self.assertRaises(InterruptedError):
        run(workdir=broken, on_progress=interrupt)
      again = run(workdir=broken)
      for key, value in out.items():
        np.testing.assert_array_equal(again[key], value, key)
      states = [evaluation.load(path)[-1] for path in (whole, broken)]
      self.assertEqual(states[0].waiting.tokens.shape[4:],
                       (build.actor(c).layout.segments, build.actor(c).layout.length))
      jax.tree.map(np.testing.assert_array_equal, *(
          jax.tree.map(lambda x: jax.random.key_data(x) if jax.dtypes.issubdtype(
              x.dtype, jax.dtypes.prng_key) else x, state) for state in states))
    self.assertEqual(out['bad_step'], [-1])
    (sampled,), (trained,) = out['sampled_tokens'], out['trained_tokens']
    episodes, turns = 8 * 4, 5
    self.assertEqual(trained, (4 - c.sample.lag) * episodes * turns)
    # A note is written in each of four steps, of one to three tokens.
    self.assertBetween(sampled, 4 * episodes * (turns + 1), 4 * episodes * (turns + 3))


class ExpertTest(absltest.TestCase):

  def test_its_notes_are_words_of_the_state(self):
    c = base.get_config('smoke,horizon')
    c.task.horizon, c.task.drift, c.task.goals, c.task.switch = 7, 0.5, 2, 0.5
    c.window.turns, c.window.summary = 2, 3
    actor = build.actor(c)
    layout, task = actor.layout, actor.task
    shown = jax.jit(lambda key: demos.demonstrate(
        task, layout, actor.knobs, key, step=0, prompts=6, samples=2, noise=0.3))(keys.root(0))
    r = {name: np.asarray(getattr(shown, name)) for name in PARTS}
    high, seen = layout.length - layout.note, set()
    for p, g, s in np.ndindex(6, 2, layout.segments - 1):
      text = task.render(r['tokens'][p, g, s, high:], r['valid'][p, g, s, high:])
      self.assertRegex(text, r'^summary ok:m[01] goal-[01] end$')
      np.testing.assert_array_equal(r['mask'][p, g, s, high:], [False, True, True, True])
      # What the next turn needs: the word for its mode and goal, which the state id tells.
      place = (r['state_id'][p, g, s, high + 1] - 1) % (24 * c.task.actions)
      mode, goal = place // 6 % 2, place // (12 * c.task.actions)
      self.assertEqual(text, f'summary ok:m{mode} goal-{goal} end')
      np.testing.assert_array_equal(
          r['tokens'][p, g, s + 1, layout.prompt:layout.prompt + layout.note],
          r['tokens'][p, g, s, high:])
      seen.add(text)
    self.assertLen(seen, 4)

  def test_words_that_do_not_fit_are_left_out(self):
    layout = types.Layout(prompt=1, action=1, observation=3, turns=2, segments=2, carry=1,
                          summary=2)
    words, real = jnp.array([5, 6, 7]), jnp.array([False, True, True])
    tokens, valid = compaction.expert_note(words, real, layout, (8, 9))
    np.testing.assert_array_equal(tokens, [8, 6, 9])
    self.assertTrue(bool(valid.all()))
    none = compaction.expert_note(words, jnp.zeros(3, bool), layout, (8, 9))
    np.testing.assert_array_equal(none, [[8, 9, 0], [True, True, False]])


if __name__ == '__main__':
  absltest.main()
