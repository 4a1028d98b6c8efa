"""The contract of line, meeting and triage: scores, knobs, ends, splits and text."""

import dataclasses
import importlib
import re

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.rollout import demos
from grpo.tasks import scenes
from tests import episodes as runs
from tests import players
from tests import scenes as plays
from tests import toy

# What each knob may touch: leaves of the state, columns of the observation, and the prompt.
COLUMNS = dict(
    line=('report', 'news', 'stock', 'gauge', 'gauge', 'gauge', 'gauge'),
    meeting=('answer',) * 6 + ('result', 'goal news', 'clock'),
    triage=('who', 'finding', 'lab', 'look', 'wish news'))
WEAR = 'age rate wrecked output waited gauge report'
TOUCHES = dict(
    line=dict(
        horizon=(9, f'horizon {WEAR}'), decisive=(1, f'spare prompt {WEAR}'),
        visibility=(1, 'shown gauge'),
        delay=(2, f'lag grace due inspected stock coming turning setup broken {WEAR}'),
        drift=(0.3, 'bias gauge'), undo=(1, WEAR), switch=(0.3, 'want waited output news'),
        unreliable=(0.5, 'liar gauge prompt'), rules=(2, 'prompt')),
    meeting=dict(
        horizon=(5, 'horizon due asked heard broken answer result'),
        roles=(3, 'free needed answer'),
        visibility=(1, 'result'), delay=(2, 'due heard answer'), drift=(0.3, 'summer answer clock'),
        undo=(1, 'result'), switch=(0.3, 'goal goal_news'), unreliable=(0.5, 'answer'),
        rules=(2, 'needed prompt')),
    triage=dict(
        horizon=(5, 'horizon heard finding lab'), visibility=(1, 'known look'),
        delay=(2, 'lag due heard finding lab broken'), drift=(0.3, 'worse known finding'),
        undo=(1, 'who finding'), switch=(0.3, 'wish wish_news'), sources=(3, 'who'),
        unreliable=(1, 'random finding'), rules=(2, 'prompt')))
# Under these a policy that knows no stressor does worse and worse; the last value is the worst.
HARDER = dict(
    line=dict(decisive=(3, 4), delay=(1, 2, 4), drift=(0.3, 1), switch=(0.1, 0.3, 1),
              unreliable=(0.3, 0.6, 1), rules=(1, 2)),
    meeting=dict(roles=(2, 3), delay=(2, 4, 6), drift=(0.1, 0.3, 1), switch=(0.1, 0.3, 1),
                 unreliable=(0.3, 0.6, 1), rules=(1, 2)),
    triage=dict(delay=(2, 4, 6), drift=(0.1, 0.3, 1), switch=(0.1, 0.3, 1),
                unreliable=(0.3, 0.6, 1), rules=(1, 2)))


def differences(name, knob, value):
  """Names of what differs in paired episodes of the same actions, while both go on."""
  base = dict(drift=0.3) if (name, knob) == ('triage', 'visibility') else {}
  one = plays.episodes(name, 'actions', **base)
  two = plays.episodes(name, 'actions', **base | {knob: value})
  np.testing.assert_array_equal(one['action'], two['action'])
  both = one['alive'] & two['alive']
  found = set() if np.array_equal(one['prompt'], two['prompt']) else {'prompt'}
  for i, column in enumerate(COLUMNS[name]):
    if np.any((one['observation'] != two['observation'])[..., i] & both):
      found.add(column.replace(' ', '_'))
  for field in dataclasses.fields(one['state']):
    for side, mask in (('start', np.ones(plays.COUNT, bool)), ('state', both)):
      a, b = (getattr(record[side], field.name) for record in (one, two))
      if np.any((a != b)[mask]):
        found.add(field.name)
  return found


class ScenesTest(parameterized.TestCase):

  @parameterized.parameters(*plays.NAMES)
  def test_scores_are_those_of_the_docstring(self, name):
    text = importlib.import_module(f'grpo.tasks.{name}').__doc__
    rows = {row: (float(a), float(b)) for row, a, b in
            re.findall(r'^ +(\w+)[^\n]*? +(\d\.\d{3}) +(\d\.\d{3})$', text, re.M)}
    self.assertEqual(set(rows), {'expert', 'words', 'actions', 'nothing', 'repeat', 'blind'})

    def measure(kind, token=1):
      return tuple(plays.scores(plays.episodes(name, kind, token, partial=p))[p] for p in (0, 1))

    found = {kind: measure(kind) for kind in ('expert', 'words', 'actions', 'blind')}
    found['nothing'] = measure('repeat')
    repeated = [measure('repeat', token) for token in range(1, 1 + plays.actions(name))]
    found['repeat'] = tuple(max(scores) for scores in zip(*repeated))
    for row, want in rows.items():
      for score, stated in zip(found[row], want):
        # The best of many words is biased upwards by its noise.
        self.assertAlmostEqual(score, stated, delta=0.03, msg=row)
    self.assertGreater(found['expert'][0], 0.99)

  @parameterized.parameters(*plays.NAMES)
  def test_observations_suffice_and_knobs_make_it_harder(self, name):
    easy = players.success(name)
    self.assertGreater(easy, 0.99)
    for knob, values in HARDER[name].items():
      scores = [easy] + [players.success(name, **{knob: value}) for value in values]
      self.assertLess(scores[-1], 0.96, knob)
      for left, right in zip(scores, scores[1:]):
        self.assertLessEqual(right, left + 0.01, knob)

  @parameterized.parameters(*((name, knob) for name in plays.NAMES for knob in TOUCHES[name]))
  def test_a_knob_changes_what_it_is_about_and_nothing_else(self, name, knob):
    value, allowed = TOUCHES[name][knob]
    found = differences(name, knob, value)
    self.assertNotEmpty(found)
    self.assertLessEqual(found, set(allowed.split()))

  @parameterized.parameters(*plays.NAMES)
  def test_every_knob_is_tested(self, name):
    self.assertEqual(set(TOUCHES[name]) | {'partial', 'heldout'}, set(runs.build(name).knobs))
    self.assertEmpty(differences(name, 'partial', 1))

  @parameterized.parameters(*plays.NAMES)
  def test_rewards_are_bounded_and_paid_once_at_the_end(self, name):
    for partial in (0, 0.5, 1):
      record = plays.episodes(name, 'words', partial=partial)
      over = record['terminated'] | record['truncated']
      self.assertTrue(np.all((record['reward'] >= 0) & (record['reward'] <= 1)))
      np.testing.assert_array_equal(record['reward'][record['alive'] & ~over], 0)
      np.testing.assert_array_equal((over & record['alive']).sum(axis=1), 1)

  @parameterized.parameters(('line', False, 12), ('meeting', True, 8), ('triage', True, 8))
  def test_end_limit_and_last_observation(self, name, cut, turns):
    for horizon in (turns, turns - 2):
      record = plays.episodes(name, 'repeat', 1, horizon=horizon)
      np.testing.assert_array_equal(record['alive'].sum(axis=1), horizon)
      last = horizon - 1
      self.assertTrue(np.all(record['truncated'][:, last] == cut))
      self.assertTrue(np.all(record['terminated'][:, last] != cut))
      self.assertTrue(np.all(record['observation'][:, last, -1] > 0))
      np.testing.assert_array_equal(record['reward'].sum(axis=1), 0)

  @parameterized.parameters(*plays.NAMES)
  def test_splits_are_disjoint_and_cover_instances(self, name):
    numbers = [plays.episodes(name, 'repeat', heldout=side)['start'].number for side in (0, 1)]
    self.assertTrue(np.all(numbers[0] % scenes.FOLDS > 0))
    self.assertTrue(np.all(numbers[1] % scenes.FOLDS == 0))
    for side in numbers:
      self.assertGreater(len(np.unique(side)), 0.99 * plays.COUNT)
    self.assertGreater(plays.scores(plays.episodes(name, 'expert', heldout=1))[0], 0.99)

  @parameterized.parameters(*plays.NAMES)
  def test_a_stored_state_continues_bit_for_bit(self, name):
    task = runs.build(name)
    stress = {k: 0.3 for k in ('drift', 'switch', 'undo', 'visibility', 'unreliable')}
    record = plays.episodes(name, 'actions', delay=1, **stress)
    knobs = {k: jnp.float32(v) for k, v in (task.knobs | dict(delay=1) | stress).items()}
    step = jax.jit(jax.vmap(task.step, in_axes=(0, 0, 0, None)))
    ids = jax.jit(jax.vmap(task.state_id))
    at = lambda turn: jax.tree.map(lambda x: jnp.asarray(x[:64, turn].copy()), record['state'])
    state = at(2)
    self.assertEqual(len(np.unique(ids(state))), 64)
    for turn in (3, 4, 5):
      out = step(state, record['action'][:64, turn, None], jnp.ones((64, 1), bool), knobs)
      jax.tree.map(np.testing.assert_array_equal, out.state, at(turn))
      for field in ('observation', 'valid', 'reward', 'success', 'terminated', 'truncated'):
        np.testing.assert_array_equal(getattr(out, field), record[field][:64, turn], field)
      np.testing.assert_array_equal(ids(out.state), ids(at(turn)))
      state = out.state

  @parameterized.parameters(*plays.NAMES)
  def test_noise_is_of_the_sample_and_the_instance_of_the_group(self, name):
    task = runs.build(name)
    first = plays.episodes(name, 'repeat')['start']
    state = jax.tree.map(lambda x: jnp.asarray(x[0].copy()), first)
    one, two = (task.reseed(state, keys.root(seed)) for seed in (1, 2))
    self.assertFalse(np.array_equal(one.noise, two.noise))
    self.assertEqual(int(task.state_id(one)), int(task.state_id(two)))
    jax.tree.map(np.testing.assert_array_equal, *(dataclasses.replace(s, noise=jnp.zeros(2))
                                                  for s in (one, two)))

  @parameterized.parameters(*plays.NAMES)
  def test_text(self, name):
    task = runs.build(name)
    self.assertLen(set(task.vocab), len(task.vocab))
    self.assertFalse(any(re.search(r'\s', word) for word in task.vocab))
    record = plays.episodes(name, 'expert')
    turns = int(record['alive'][0].sum())
    real = np.ones(1, bool)
    text = scenes.transcript(task, record['prompt'][0], np.ones(task.prompt_len, bool), [
        (record['action'][0, t, None], real, record['observation'][0, t], record['valid'][0, t],
         record['reward'][0, t]) for t in range(turns)])
    lines = text.splitlines()
    self.assertLen(lines, turns + 1)
    self.assertEqual(scenes.parse(task, lines[0]), record['prompt'][0].tolist())
    for t, line in enumerate(lines[1:]):
      action, observation = line.split('. ', 1)[1].split('  [')[0].split(' -> ')
      self.assertEqual(scenes.parse(task, action), [record['action'][0, t]])
      self.assertEqual(scenes.parse(task, observation),
                       record['observation'][0, t][record['valid'][0, t]].tolist())
    self.assertTrue(lines[-1].endswith('[reward 1.00]'))
    with self.assertRaisesRegex(ValueError, 'unknown words: xyz'):
      scenes.parse(task, 'xyz')

  @parameterized.parameters(*plays.NAMES)
  def test_the_expert_can_be_cloned(self, name):
    task = runs.build(name)
    layout = toy.layout(task, turns=task.max_turns)
    shown = jax.jit(lambda noise: demos.demonstrate(task, layout, task.knobs, keys.root(0), step=0,
                                                    prompts=8, samples=2, noise=noise))(0.0)
    self.assertEqual(float(shown.success.mean()), 1)
    self.assertTrue(np.all(shown.terminated))
    self.assertEqual(float(shown.rewards.sum()), 16)


if __name__ == '__main__':
  absltest.main()
