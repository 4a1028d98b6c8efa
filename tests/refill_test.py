"""Over-sampling: which groups fill the batch, what is counted, and that nothing else changes."""

import functools
import importlib
import json

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import base
from grpo import build
from grpo import check
from grpo.learn import flops
from grpo.learn import loop
from grpo.learn import state as states
from grpo.objective import filters
from grpo.rollout import refill
from tests import draws
from tests import rollouts

partial = functools.partial
FILTERS = dict(reward=(filters.informative,), success=(partial(filters.informative, by='success'),),
               rate=(partial(filters.pass_rate, low=0.3, high=0.7), filters.complete))


@partial(jax.jit, static_argnums=(0, 1))
def fill(name, wanted, mask, rewards, success, truncated):
  made = rollouts.rollout(mask, rewards, success=success, truncated=truncated)
  # Each row says where it came from.
  place = jnp.broadcast_to(jnp.arange(mask.shape[0], dtype=jnp.int32)[:, None], mask.shape[:2])
  return refill.first(FILTERS[name], make(made, prompt_id=place), wanted, 0)


def make(rollout, **fields):
  return type(rollout)(**{**rollout.__dict__, **fields})


def passes(name, on, reward, success, truncated):
  """Slow twin: whether some row of a group is kept, from float64 lists."""
  if not on.any():
    return False
  if name == 'rate':
    rate = sum(s for s, k in zip(success, on, strict=True) if k) / on.sum()
    return 0.3 <= rate <= 0.7 and any(k and not t for k, t in zip(on, truncated, strict=True))
  x = [v for v, k in zip(success if name == 'success' else reward, on, strict=True) if k]
  return max(x) - min(x) > 1e-5 * max(abs(v) for v in x)


class FirstTest(parameterized.TestCase):

  @draws.times(25)
  def test_the_first_that_pass_in_order(self, shape, share, seed):
    rng = np.random.default_rng(seed)
    P = 8
    shape = (P, 4, 3)
    mask = rng.random(shape) < share
    rewards = (rng.choice([0.0, 0.1, 1.0], shape) * mask).astype('f')
    success = (rng.random(shape[:2]) < 0.5).astype('f')
    truncated = rng.random(shape[:2]) < 0.3
    on = mask.any(axis=2)
    for name in FILTERS:
      kept, metrics = fill(name, 3, mask, rewards, success, truncated)
      good = [p for p in range(P) if passes(name, on[p], rewards.astype(float).sum(axis=2)[p],
                                            success[p].tolist(), truncated[p].tolist())]
      rest = [p for p in range(P) if p not in good]
      want = (good + rest)[:3]
      self.assertEqual(kept.prompt_id[:, 0].tolist(), want, name)
      np.testing.assert_array_equal(kept.rewards[:, :, 0], rewards[want])
      np.testing.assert_array_equal(kept.mask[:, :, 0], mask[want])
      np.testing.assert_array_equal(kept.success, success[want])
      np.testing.assert_allclose(metrics['refill/passed'].total, len(good))
      self.assertEqual(float(metrics['refill/passed'].count), P)
      self.assertEqual(float(metrics['refill/full'].total), len(good) >= 3)

  def test_prompts_may_come_in_any_order(self):
    """The chosen groups of a permuted batch are the first passing ones of that order."""
    rng = np.random.default_rng(0)
    mask = np.ones((8, 4, 3), bool)
    success = rng.choice([0.0, 1.0], (8, 4)).astype('f')
    success[[1, 2, 5]] = success[[1, 2, 5], :1]     # flat groups
    order = rng.permutation(8)
    args = mask, np.zeros(mask.shape, 'f'), success, np.zeros((8, 4), bool)
    kept, _ = fill('success', 3, *(x[order] for x in args))
    flat = [p for p in range(8) if success[p].min() == success[p].max()]
    want = [i for i, p in enumerate(order) if p not in flat][:3]
    self.assertEqual(kept.prompt_id[:, 0].tolist(), want)


def plain(**overrides):
  """DAPO on a table of logits, which compiles in seconds."""
  config = importlib.import_module('configs.dapo').get_config('smoke,horizon')
  config.model = base.slot('tabular')
  config.clone.steps = 0
  config.task.horizon, config.task.actions, config.window.turns = 2, 2, 2
  config.task.decisive = 1
  config.steps, config.log_every, config.checkpoint.every = 4, 2, 4
  config.train.learning_rate = 0.1
  config.evaluate.prompts = 16
  with config.ignore_type():
    config.update_from_flattened_dict({k.replace('__', '.'): v for k, v in overrides.items()})
  return build.plain(config)


@functools.cache
def run(**overrides):
  return loop.run(plain(**overrides), seeds=[0, 1])


class StepTest(parameterized.TestCase):

  def test_all_rollouts_are_counted(self):
    one, two = run(sample__over=1), run()
    sample = plain()['sample']
    rows = sample['prompts'] * sample['group'] * 4
    self.assertEqual(one['rollouts'], [rows, rows])
    self.assertEqual(two['rollouts'], [2 * rows, 2 * rows])
    self.assertEqual(two['sampled_tokens'], [2 * x for x in one['sampled_tokens']])
    for twice, once in zip(two['trained_tokens'], one['trained_tokens'], strict=True):
      self.assertGreater(twice, once)       # more groups with spread
      self.assertLessEqual(twice, rows * 2)  # and never more than the batch, 2 tokens a row

  def test_a_step_is_compiled_once(self):
    c = plain()
    programs = loop.Programs(c)
    state = programs.initial(np.arange(2, dtype=np.int32), None, ())
    for _ in range(2):
      state, metrics, _ = programs.stretch(state, ())
    self.assertEqual(programs.stretch._cache_size(), 1)
    found = metrics.unpack()
    passed, kept = found['refill/passed'], found['group/kept']
    # Per seed and over 2 steps of 16 groups: all that pass fill at most the 8 places.
    np.testing.assert_array_equal(passed.count, 32)
    np.testing.assert_array_less(kept.total / 4, passed.total + 0.5)
    np.testing.assert_array_equal(found['success/sampled'].count, 2 * 16 * 4)
    self.assertEqual(states.values(np.asarray(state.counters)[0])['rollouts'], 4 * 16 * 4)

  @pytest.mark.slow
  @parameterized.parameters(dict(train__micro=2), dict(mesh__data=4))
  def test_splitting_changes_nothing(self, **split):
    if 'mesh__data' in split:
      split |= dict(train__minibatches=1)
    one = run(**{k: v for k, v in split.items() if k == 'train__minibatches'})
    other = run(**split)
    np.testing.assert_allclose(one['success'], other['success'], atol=1e-5)
    self.assertEqual(one['trained_tokens'], other['trained_tokens'])

  @pytest.mark.slow
  def test_the_chosen_wait_in_the_delay_line(self):
    late = run(sample__lag=1)
    self.assertEqual(late['rollouts'], run()['rollouts'])
    self.assertTrue(np.isfinite(late['reward']).all())

  def test_flops_of_episodes_that_are_not_trained_on(self):
    """A forward pass for each that is played, three more (A*-PO: four) for each trained on.

    Counters of 60 prompt tokens and 360 others. Greedy and reference episodes read the prompt a
    second time, so half of those 60 are trained on; 9 rows of a branch plan share one reading. The
    tracker of SPO has one episode of each prompt scored again.
    """
    counters = dict(prompt_tokens=60, context_tokens=360)
    for name, prompt, rows, more in (
        ('grpo', 60, 360, 3), ('dapo', 30, 180, 3), ('remax', 30, 180, 3), ('vine_ppo', 60, 40, 3),
        ('a_star_po', 30, 40, 4), ('spo_single', 60, 360, 4)):
      c = build.plain(importlib.import_module(f'configs.{name}').get_config('smoke'))
      parts = build.parts(c)
      cost = lambda *tokens, parts=parts: parts.policy.flops(*tokens, parts.layout.length / 2)
      want = cost(60, 360) + more * cost(prompt, rows)
      self.assertAlmostEqual(flops.spent(parts, counters, c)[0] / want, 1.0, msg=name)
    c['sample'] |= dict(prompts=8, group=4)
    parts = build.parts(c)
    want = cost(60, 360) + 3 * cost(60, 360) + cost(60, 90)  # one of four
    self.assertAlmostEqual(flops.spent(parts, counters, c)[0] / want, 1.0)

  @parameterized.parameters(
      (dict(method__filter={}), 'no method.filter chooses'),
      (dict(method__filter={'u': {'name': 'uncertain'}}), 'uncertain compares'),
      (dict(method__filter={'i': {'name': 'informative', 'by': 'shaped'}}), 'before rewards'),
      (dict(sample__greedy=1, method__advantages={'name': 'minus_baseline'}), 'sample.greedy'),
      (dict(sample__over=0), 'sample.over: must be at least 1'),
  )
  def test_refused(self, overrides, message):
    with self.assertRaisesRegex(ValueError, message):
      check.check(json.loads(json.dumps(plain(**overrides))))


if __name__ == '__main__':
  absltest.main()
