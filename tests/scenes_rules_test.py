"""Rules of line, meeting and triage, on traces made by hand."""

import dataclasses
import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.study import play
from grpo.tasks import line
from grpo.tasks import meeting
from grpo.tasks import scenes
from grpo.tasks import triage
from tests import episodes as runs


@functools.cache
def programs(name):
  task = runs.build(name)
  return task, jax.jit(lambda knobs: task.reset(keys.root(0), knobs)), jax.jit(task.step)


def start(name, knobs, **changes):
  """State of one instance, with leaves replaced by plain numbers."""
  _, reset, _ = programs(name)
  state = reset(knobs)[0]
  return dataclasses.replace(state, **{
      k: jnp.asarray(v, getattr(state, k).dtype) for k, v in changes.items()})


def follow(name, words, changes, **knobs):
  """Plays words from a made-up state: (texts of the observations, last Step)."""
  task, _, step = programs(name)
  knobs = {k: jnp.float32(v) for k, v in (task.knobs | knobs).items()}
  state, texts = start(name, knobs, **changes), []
  for word in words.split():
    out = step(state, jnp.asarray(scenes.parse(task, word), jnp.int32), jnp.ones(1, bool), knobs)
    state = out.state
    texts.append(task.render(out.observation, out.valid))
  return texts, out


# Machine 1 is wrecked at the end of its second turn; the others do not wear.
WORN = dict(age=[0.5, 0, 0, 0], rate=[0.25, 0, 0, 0], setup=0, want=0, spare=1, horizon=12)
# ann cannot at 5, bob not at 6, cid is free at all of the four; the hours 3 and 9 suit all.
FREE = np.zeros((3, 12), bool)
FREE[:, [3, 9]] = True
FREE[[1, 2], 5] = FREE[[0, 2], 6] = True
DAY = dict(free=FREE, common=[3, 9], zone=[0, 1, 2], goal=0, horizon=8)
ILL = dict(condition=2, wish=0, onset=[0, 1, 2], horizon=8)  # croup: fever, no rash, cough


class LineTest(parameterized.TestCase):

  def test_wear_is_not_linear_and_a_wreck_stays(self):
    texts, out = follow('line', 'inspect-1 run run', WORN)
    self.assertEqual(texts, ['found-5 same stock-1 g5 g0 g0 g0', '- same stock-1 g9 g0 g0 g0',
                             '- same stock-1 g9 g0 g0 g0'])
    self.assertEqual(int(out.state.output), 2)
    texts, out = follow('line', 'run run service-1 run', WORN, visibility=1)
    self.assertEqual([text.split()[3] for text in texts], ['g5', 'gX', 'gX', 'gX'])
    self.assertEqual((int(out.state.output), int(out.state.stock)), (2, 0))
    texts, out = follow('line', 'run run service-1 run', WORN, visibility=1, undo=1)
    self.assertEqual([text.split()[3] for text in texts], ['g5', 'gX', 'g0', 'g0'])
    self.assertEqual(int(out.state.output), 3)

  def test_a_longer_shift_is_the_same_watch_between_quiet_turns(self):
    task = runs.build('line', max_turns=31)
    step = jax.jit(task.step)

    def play(turns, key, words):
      knobs = {k: jnp.float32(v) for k, v in (task.knobs | dict(
          horizon=turns, decisive=4, visibility=1)).items()}
      state, seen, words = task.reset(key, knobs)[0], [], scenes.parse(task, words)
      for t in range(turns):
        at = t - (turns - 12) // 2
        word = words[at] if 0 <= at < len(words) else task.vocab.index('run')
        out = step(state, jnp.array([word], jnp.int32), jnp.ones(1, bool), knobs)
        seen.append(task.render(out.observation, out.valid))
        state = out.state
      return seen, state

    for seed in range(4):
      words = 'order run inspect-1 order inspect-2 stop-3 run stop-4 run inspect-4 run run'
      short, _ = play(12, keys.root(seed), words)
      long, state = play(31, keys.root(seed), words)
      self.assertLen(set(long[:9]), 1, 'nothing happens before the watch')
      self.assertEqual(long[9:21], short)
      self.assertTrue(np.all(state.wrecked))
      for words, lasts in (('service-1', False), ('run run run service-1', True)):
        self.assertEqual(bool(play(31, keys.root(seed), words)[1].wrecked[0]), not lasts)

  def test_service_and_order_take_effect_late(self):
    for lag, words, stock in ((0, 'service-1 order run', [0, 1, 1]),
                              (2, 'service-1 order run run run', [0, 0, 0, 1, 1])):
      slow = WORN | dict(rate=[0.01, 0, 0, 0], lag=lag)
      texts, out = follow('line', words, slow)
      self.assertEqual([int(text.split()[2][-1]) for text in texts], stock)
      self.assertEqual(int(out.state.output), len(stock) - 1, 'one turn down')
      self.assertLess(float(out.state.age[0]), 0.4)
    self.assertEqual(follow('line', 'service-1 service-2', WORN)[0][1].split()[0], 'no-part')

  def test_who_waits_and_refers_in_triage_gains_with_drift(self):
    task = programs('triage')[0]
    wait, refer = (jnp.int32(task.vocab.index(word)) for word in ('wait', 'refer'))
    act = lambda state, key: (jnp.where(state.turn < state.horizon - 1, wait, refer)[None],
                              jnp.ones(1, bool))
    score = play.scores(task, act, 4000)
    for drift, rules, stated in ((0, 0, 0.0), (0.1, 0, 0.522), (0.2, 2, 0.790)):
      self.assertAlmostEqual(1 - (1 - drift) ** 7, stated, delta=0.0006)
      success, _, turns = score(dict(drift=drift, rules=rules), keys.root(0))
      self.assertAlmostEqual(success.mean(), stated, delta=0.025)
      np.testing.assert_array_equal(turns, 8)
      self.assertIn(f'{stated:.3f}', triage.__doc__)

  def test_only_the_wanted_product_counts(self):
    wrong = WORN | dict(want=1, rate=[0, 0, 0, 0])
    for words, pieces in (('run run run', 0), ('run adjust run', 2), ('adjust adjust run', 1)):
      self.assertEqual(int(follow('line', words, wrong)[1].state.output), pieces)
    _, out = follow('line', 'run adjust run run', wrong | dict(lag=1))
    self.assertEqual(int(out.state.output), 2)

  @parameterized.parameters(
      ('inspect-1 service-1 order', (False, False)), ('service-1 order', (True, False)),
      ('order service-1', (True, False)), ('order order', (False, True)),
      ('order order service-1', (True, True)), ('run run', (False, False)))
  def test_rules_are_recorded_and_count_when_in_force(self, words, broken):
    for rules in (0, 1, 2):
      near = WORN | dict(rate=[0.01, 0, 0, 0], turn=12 - len(words.split()), output=10)
      _, out = follow('line', words, near, rules=rules)
      self.assertEqual(tuple(out.state.broken.tolist()), broken)
      self.assertEqual(bool(out.terminated), True)
      self.assertEqual(float(out.success), 0.0 if any(broken[:rules]) else 1.0)

  def test_gauges_lie_and_drift_and_an_inspection_sets_them_right(self):
    state = start('line', runs.build('line').knobs, age=[0.5, 0, 0.9, 0], bias=[0, 3, 2, 0],
                  liar=[1, 0, 0, 1])
    self.assertEqual(line.gauge(state).tolist(), [7, 3, 9, 9])
    texts, _ = follow('line', 'inspect-2', WORN | dict(bias=[0, 3, 0, 0]))
    self.assertEqual(texts, ['found-0 same stock-1 g5 g0 g0 g0'])


class MeetingTest(parameterized.TestCase):

  def test_answers_come_in_local_time_from_people_who_are_awake(self):
    quiet = 'quiet no-news clock-same'
    texts, _ = follow('meeting', 'ask-ann ask-cid wait wait ask-cid ask-ann', DAY)
    self.assertEqual(texts, [f'ann 3h 6h 9h - - {quiet}', 'asleep no-news clock-same', quiet, quiet,
                             f'cid 5h 7h 8h 11h - {quiet}', 'asleep no-news clock-same'])
    texts, _ = follow('meeting', 'ask-ann', DAY | dict(summer=[1, 0, 0]))
    self.assertEqual(texts, [f'ann 4h 7h 10h - - {quiet}'])
    texts, _ = follow('meeting', 'ask-ann ask-ann wait wait', DAY, delay=2)
    self.assertEqual(texts, [quiet, quiet, f'ann 3h 6h 9h - - {quiet}', quiet])
    texts, _ = follow('meeting', 'ask-ann', DAY, unreliable=1)
    self.assertEqual(texts, [f'ann 4h 7h 10h - - {quiet}'])

  def test_objections_are_voiced_as_often_as_visibility_says(self):
    for visibility, word in ((0, 'noted'), (1, 'objection')):
      texts, _ = follow('meeting', 'propose-3z propose-5z', DAY, visibility=visibility)
      self.assertEqual([text.split()[0] for text in texts], ['noted', word])

  @parameterized.parameters(('book-3z', 0, 1.0, 1.0), ('book-9z', 0, 0.0, 1.0),
                            ('book-9z', 1, 1.0, 1.0), ('book-5z', 0, 0.0, 2 / 3),
                            ('book-0z', 0, 0.0, 0.0))
  def test_a_sent_invitation_is_final(self, word, goal, success, share):
    for partial in (0, 1):
      texts, out = follow('meeting', word, DAY | dict(goal=goal), partial=partial)
      self.assertEqual(texts, ['sent no-news clock-same'])
      self.assertTrue(out.terminated)
      self.assertFalse(out.truncated)
      self.assertEqual(float(out.success), success)
      self.assertAlmostEqual(float(out.reward), share if partial else success, places=6)
    if not success:
      texts, out = follow('meeting', word, DAY | dict(goal=goal), undo=1, partial=1)
      self.assertEqual(texts, ['declined no-news clock-same'])
      self.assertFalse(out.terminated)
      self.assertEqual(float(out.reward), 0)

  @parameterized.parameters(('ask-ann wait ask-bob wait ask-cid book-3z', (False, False)),
                            ('ask-ann book-3z', (True, False)),
                            ('ask-cid book-3z', (True, True)),
                            ('ask-bob ask-ann ask-bob wait ask-cid book-3z', (False, True)))
  def test_rules_are_recorded_and_count_when_in_force(self, words, broken):
    for rules in (0, 1, 2):
      _, out = follow('meeting', words, DAY, rules=rules, partial=0.5)
      self.assertEqual(tuple(out.state.broken.tolist()), broken)
      self.assertEqual(float(out.reward), 0.0 if any(broken[:rules]) else 1.0)

  def test_everybody_whose_answer_counts_can_rule_an_hour_out(self):
    task, reset, _ = programs('meeting')
    for roles in (1, 2, 3):
      state = reset(task.knobs | dict(roles=roles))[0]
      free, common = np.asarray(state.free), np.asarray(state.common)
      self.assertEqual(np.flatnonzero(free.all(axis=0)).tolist(), common.tolist())
      self.assertEqual(np.flatnonzero(free[:roles].all(axis=0)).tolist(), common.tolist())
      for left_out in range(roles):
        rest = np.delete(free[:roles], left_out, axis=0)
        self.assertGreater(rest.all(axis=0).sum(), 2)
      self.assertEqual(int(meeting.wanted(state)), common[int(state.goal)])


class TriageTest(parameterized.TestCase):

  def test_signs_develop_and_the_lab_has_one_sample(self):
    texts, _ = follow('triage', 'ask-fever ask-rash ask-rash lab-cough lab-fever ask-cough', ILL)
    rest = 'steady no-news'
    self.assertEqual(texts, [
        f'patient fever-yes no-result {rest}', f'patient unclear no-result {rest}',
        f'patient rash-no no-result {rest}', f'- nothing lab-unclear {rest}',
        f'- nothing no-result {rest}', f'patient cough-yes no-result {rest}'])
    texts, _ = follow('triage', 'lab-fever wait wait', ILL | dict(lag=2))
    self.assertEqual(texts[2], f'- nothing lab-fever-yes {rest}')
    texts, _ = follow('triage', 'ask-fever ask-fever', ILL, sources=2)
    self.assertEqual([text.split()[0] for text in texts], ['patient', 'partner'])

  def test_signs_tell_the_conditions_apart(self):
    table = np.stack([triage.sign(jnp.int32(c)) for c in range(4)])
    for left_out in range(3):
      self.assertLen(np.unique(np.delete(table, left_out, axis=1), axis=0), 4)

  @parameterized.parameters(('rest-croup', False, 1.0, 1.0), ('pills-croup', False, 0.0, 0.5),
                            ('rest-flu', False, 0.0, 0.0), ('refer', False, 0.0, 0.0),
                            ('refer', True, 1.0, 1.0), ('rest-croup', True, 0.0, 0.0))
  def test_advice_is_final(self, word, worse, success, share):
    for partial in (0, 1):
      _, out = follow('triage', word, ILL | dict(worse=worse), partial=partial)
      self.assertTrue(out.terminated)
      self.assertEqual(float(out.success), success)
      self.assertEqual(float(out.reward), share if partial else success)
    if not success:
      texts, out = follow('triage', word, ILL | dict(worse=worse), undo=1, partial=1)
      self.assertEqual(texts, ['doctor no-effect no-result steady no-news'])
      self.assertFalse(out.terminated | out.truncated)
      self.assertEqual(float(out.reward), 0)

  def test_worse_is_seen_or_found(self):
    for visibility, look in ((0, 'steady'), (1, 'worse')):
      texts, _ = follow('triage', 'check check', ILL, drift=1, visibility=visibility)
      self.assertEqual(texts, [f'doctor clear no-result {look} no-news',
                               'doctor flag no-result steady no-news'])

  @parameterized.parameters((1, 'check lab-fever pills-croup', (False, False)),
                            (1, 'lab-fever pills-croup', (True, False)),
                            (1, 'check pills-croup', (False, True)),
                            (0, 'rest-croup', (True, False)))
  def test_rules_are_recorded_and_count_when_in_force(self, wish, words, broken):
    for rules in (0, 1, 2):
      _, out = follow('triage', words, ILL | dict(wish=wish), rules=rules, partial=0.5)
      self.assertEqual(tuple(out.state.broken.tolist()), broken)
      self.assertEqual(float(out.reward), 0.0 if any(broken[:rules]) else 1.0)


class SizesTest(parameterized.TestCase):

  @parameterized.parameters(
      (line, dict(machines=1)), (line, dict(max_turns=0)), (meeting, dict(people=5)),
      (meeting, dict(hours=4)), (meeting, dict(max_turns=0)), (triage, dict(max_turns=0)))
  def test_bad_sizes_are_refused(self, module, sizes):
    with self.assertRaisesRegex(ValueError, f'{module.__name__.split(".")[-1]}: '):
      module.make(**sizes)


if __name__ == '__main__':
  absltest.main()
