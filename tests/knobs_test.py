"""A knob of the tasks without a scene changes what it is about, and nothing else before it acts.

Paired episodes: the same key, the same actions, one knob moved. Scenes are in scenes_test.py.
"""

import dataclasses
import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grpo import keys
from grpo.study import play
from tests import episodes as runs

COUNT, TURNS = 500, 8
SIZES = dict(horizon=dict(goals=2), ladder=dict(max_level=5), keychain=dict(max_doors=2,
                                                                          max_distractors=2),
             sokoban=dict(size=5, max_boxes=2, max_depth=8))
# Columns of an observation, in their order; a board is one.
COLUMNS = dict(horizon=('word', 'status', 'cue_word'), ladder=('board_word',) * 16,
               keychain=('event', 'here', 'holds', 'ahead'), sokoban=('board_word',) * 25)
ROOMS = 'prompt floor rooms limit event here holds ahead hand opened x'
# Per knob a value, and what may differ: leaves of the state and columns of the observation.
TOUCHES = dict(
    horizon=dict(
        horizon=(6, 'damage shown status cue_word'), decisive=(4, 'damage shown status cue_word'),
        visibility=(1, 'shown status'), delay=(3, 'damage shown status cue_word'),
        drift=(0.3, 'mode damage shown status'), undo=(1, 'damage shown status'),
        switch=(0.3, 'goal word damage shown status'), unmarked=(1, 'prompt cue_word'),
        unreliable=(0.5, 'liars prompt cue_word'), sources=(1, ''), fatal=(1, ''),
        manner=(1, ''), order=(2, 'damage shown won status')),
    ladder=dict(
        level=(3, 'prompt board empty board_word'), lower=(1, 'prompt board empty board_word'),
        unmarked=(0.5, 'prompt board_word'),
        subgoal=(1, ''), heldout=(1, 'prompt board solution rank board_word')),
    keychain=dict(
        doors=(1, f'doors {ROOMS}'), distractors=(2, ROOMS),
        brittle=(1, 'hand holds event here ahead floor opened x'), hurry=(1, 'limit'),
        subgoal=(1, ''), heldout=(1, f'doors {ROOMS}')),
    sokoban=dict(
        boxes=(1, 'prompt player boxes goals best first plan left limit board_word'),
        depth=(2, 'prompt player boxes best first plan left limit board_word'),
        walls=(2, 'prompt player boxes goals walls best first plan left limit board_word'),
        subgoal=(1, ''),
        heldout=(1, 'prompt player boxes goals walls best first plan left limit board_word')))
MAY_STAY = {('horizon', 'sources'), ('horizon', 'undo')}  # sources has no room here


@functools.cache
def _runner(name):
  task = runs.build(name, **SIZES[name])

  def one(knobs, i):
    key = jax.random.fold_in(keys.root(0), i)
    state, prompt, _ = task.reset(key, knobs)
    first = task.reseed(state, jax.random.fold_in(key, 1))
    draws = jax.random.uniform(jax.random.fold_in(key, 2), (TURNS, task.action_len))

    def turn(carry, draw):
      state, alive = carry
      # Few words, so that what is done is often an action.
      action = 1 + (draw * 4).astype(jnp.int32)
      out = task.step(state, action, jnp.ones(task.action_len, bool), knobs)
      record = dict(observation=out.observation, reward=out.reward, state=out.state, alive=alive)
      return (out.state, alive & ~out.terminated & ~out.truncated), record

    _, record = jax.lax.scan(turn, (first, jnp.asarray(True)), draws)
    return record | dict(prompt=prompt, start=first)

  return jax.jit(lambda knobs: jax.vmap(lambda i: one(knobs, i))(jnp.arange(COUNT)))


@functools.cache
def episodes(name, *changes):
  knobs = runs.build(name, **SIZES[name]).knobs | dict(changes)
  return jax.tree.map(np.asarray, _runner(name)({k: jnp.float32(v) for k, v in knobs.items()}))


def differences(name, knob, value):
  """Names of what differs in paired episodes of the same actions, while both go on."""
  # Where nothing drifts and nothing shows, some knobs have nothing to act on.
  common = [('visibility', 1)] if name == 'horizon' and knob == 'undo' else []
  one, two = episodes(name, *common), episodes(name, *common, (knob, value))
  both = one['alive'] & two['alive']
  found = set() if np.array_equal(one['prompt'], two['prompt']) else {'prompt'}
  for i, column in enumerate(COLUMNS[name]):
    if np.any((one['observation'] != two['observation'])[..., i] & both):
      found.add(column)
  for field in dataclasses.fields(one['state']):
    for side, mask in (('start', np.ones(COUNT, bool)), ('state', both)):
      a, b = (getattr(record[side], field.name) for record in (one, two))
      if np.any((a != b)[mask]):
        found.add(field.name)
  return found


class KnobsTest(parameterized.TestCase):

  @parameterized.parameters(*((name, knob) for name in TOUCHES for knob in TOUCHES[name]))
  def test_a_knob_changes_what_it_is_about_and_nothing_else(self, name, knob):
    value, allowed = TOUCHES[name][knob]
    found = differences(name, knob, value)
    self.assertLessEqual(found, set(allowed.split()))
    if allowed and (name, knob) not in MAY_STAY:
      self.assertNotEmpty(found)

  @parameterized.parameters(*TOUCHES)
  def test_every_knob_is_tested(self, name):
    self.assertEqual(set(TOUCHES[name]), set(runs.build(name, **SIZES[name]).knobs))

  def test_until_it_acts_there_is_no_difference(self):
    # A failure shows from the turn on where it happens, a lock breaks a key when it is tried.
    for name, knob, acts in (('horizon', 'switch', lambda r: r['state'].goal > 0),
                             ('horizon', 'drift', lambda r: r['state'].mode > 0),
                             ('horizon', 'visibility', lambda r: r['state'].shown > 0),
                             ('keychain', 'brittle', lambda r: r['observation'][..., 0] == 9)):
      value = TOUCHES[name][knob][0]
      one, two = episodes(name), episodes(name, (knob, value))
      quiet = np.cumsum(acts(two), axis=1) == 0
      self.assertTrue(quiet.any() and not quiet.all(), knob)
      for a, b in zip(jax.tree.leaves((one['observation'], one['state'], one['reward'])),
                      jax.tree.leaves((two['observation'], two['state'], two['reward']))):
        np.testing.assert_array_equal(a[quiet], b[quiet], knob)

  @parameterized.parameters('horizon', 'line', 'meeting', 'triage')
  @pytest.mark.slow
  def test_the_expert_solves_the_easy_case_at_every_length(self, name):
    task = runs.build(name, max_turns=1024)
    score = play.scores(task, task.expert, 300)
    for turns in (4, 64, 256, 1024):
      success, _, count = score(dict(horizon=turns), keys.root(0))
      self.assertGreater(success.mean(), 0.99, turns)
      self.assertLessEqual(count.max(), turns)


if __name__ == '__main__':
  absltest.main()
