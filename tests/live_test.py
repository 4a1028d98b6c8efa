"""The audit of a run while it trains: it changes nothing, is written once, and is refused early."""

import functools
import importlib
import pathlib
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import jax
import numpy as np

from configs import base
from grpo import build
from grpo import keys
from grpo.learn import loop
from grpo.learn import sinks
from grpo.objective import method as methods
from grpo.rollout import sampler
from grpo.study import audit
from grpo.study import catalogue
from grpo.study import frames
from grpo.study import live
from scripts import docs

SEEDS = [3, 5]


def small(name='sao', spec='smoke,horizon', **overrides):
  """A variant on a tabular policy with a tabular critic."""
  c = importlib.import_module(f'configs.{name}').get_config(spec)
  c.model = base.slot('tabular')
  c.clone.steps = 0
  c.task.horizon, c.task.actions, c.window.turns, c.task.decisive = 3, 2, 3, 1
  c.steps, c.log_every, c.checkpoint.every = 4, 1, 2
  c.evaluate.prompts, c.train.learning_rate = 16, 0.1
  c.audit.every, c.audit.batches = 2, 3
  with c.ignore_type():
    c.update_from_flattened_dict({k.replace('__', '.'): v for k, v in overrides.items()})
  return c


class Interrupt(Exception):
  pass


@functools.cache
def runs():
  """Folders of the same run: without audits, with them, and with them but broken off once."""
  folder = tempfile.TemporaryDirectory()
  root = pathlib.Path(folder.name)
  config = small()
  made = live.of(config, SEEDS)
  loop.run(small(audit__every=0), seeds=SEEDS, workdir=root / 'plain')
  loop.run(config, seeds=SEEDS, workdir=root / 'whole', audit=made)

  def dies(step, params, critic_params):
    out = made(step, params, critic_params)
    if step == 4:
      raise Interrupt
    return out

  try:
    loop.run(config, seeds=SEEDS, workdir=root / 'broken', audit=dies)
  except Interrupt:
    # Lines of a step that is about to be repeated: the process wrote them and then died.
    with open(root / 'broken' / 'audit.jsonl', 'a', encoding='utf-8') as f:
      f.write('{"step": 4, "seed": 3, "part": "episode"}\n{"step": 4, "se')
  loop.run(config, seeds=SEEDS, workdir=root / 'broken', audit=made)
  return folder, root


class LiveTest(parameterized.TestCase):

  def read(self, run, name):
    return (runs()[1] / run / name).read_bytes()

  def test_training_is_the_same_to_the_byte(self):
    self.assertEqual(self.read('plain', 'metrics.jsonl'), self.read('whole', 'metrics.jsonl'))
    self.assertFalse((runs()[1] / 'plain' / 'audit.jsonl').exists())

  def test_a_resumed_run_has_every_audit_once(self):
    self.assertEqual(self.read('whole', 'audit.jsonl'), self.read('broken', 'audit.jsonl'))
    self.assertEqual(self.read('whole', 'metrics.jsonl'), self.read('broken', 'metrics.jsonl'))

  def test_records(self):
    records = sinks.read(runs()[1] / 'whole' / 'audit.jsonl')
    self.assertEqual(frames.unique(records, 'step', 'seed'),
                     [(step, seed) for step in (0, 2, 4) for seed in SEEDS])
    names = {r['estimator'] for r in frames.where(records, part='episode')}
    self.assertContainsSubset({audit.TRUTH, audit.OWN, 'trained critic, lambda 0', *live.NEAR},
                              names)
    truth = frames.where(records, part='episode', estimator=audit.TRUTH)
    self.assertTrue(all(r['sign'] == 0 and r['rank'] == 1 for r in truth))
    own = frames.where(records, part='episode', estimator=audit.OWN)
    self.assertGreater(len({r['noise'] for r in own}), 3)  # a table of zeros is sure of nothing
    critic = frames.where(records, part='critic', seed=3)
    self.assertLen(critic, 3)
    self.assertGreater(critic[0]['error'], critic[-1]['error'])  # a table of zeros learns

  def test_report(self):
    records = sinks.read(runs()[1] / 'whole' / 'audit.jsonl')
    self.assertIn('critic of seed 5', live.text(records))
    self.assertLen(live.figure(records).axes, 6)
    one = [r for r in frames.where(records, seed=3) if not r['part'].startswith('critic')]
    self.assertLen(live.figure(one).axes, 4)

  def test_what_is_bounded_or_undefined(self):
    row = dict(part='episode', estimator=audit.OWN, seed=3, success=0.5, sign=0.1, sign_low=-0.2,
               sign_high=0.3, noise=None, noise_low=0.0, noise_high=0.78, snr=2.0, snr_low=1.0,
               snr_high=3.0, step_cosine=1.01, step_cosine_low=0.8, step_cosine_high=1.4)
    records = [row | dict(step=step) for step in (0, 1, 2)]
    line = live.text(records).splitlines()[-1]
    self.assertEqual(line.split()[1:], '1.01 ± 0.30 2.00 ± 1.00 0.10 ± 0.25 -'.split())
    self.assertEqual(line.index('-'), 40 + 3 * 15 + 5)  # no interval of it, in its column
    drawn = live.figure(records).axes
    for ax, (low, high) in zip(drawn, ((0.8, 1), (1, 3), (0, 0.3))):
      band = ax.collections[0].get_paths()[0].vertices[:, 1]
      self.assertEqual((band.min(), band.max()), (low, high))
    self.assertTrue(all(x == round(x) for x in drawn[0].get_xticks()), drawn[0].get_xticks())

  @parameterized.parameters(
      (dict(audit__every=3, log_every=2, steps=4), 'multiple of log_every=2'),
      (dict(audit__group=1), 'audit.group: must be at least 2'),
      (dict(audit__estimators='some'), 'allowed are near and all, got some'),
      (dict(task__goals=2), 'one goal'), (dict(window__turns=1), 'must fit in one window'))
  def test_refused(self, changes, message):
    with self.assertRaisesRegex(ValueError, message):
      live.of(small(**changes), SEEDS)

  def test_other_tasks_are_refused(self):
    c = base.get_config('smoke,arithmetic')
    self.assertIsNone(live.of(c, SEEDS))
    c.audit.every = c.log_every
    with self.assertRaisesRegex(ValueError, '^audit.every=5: .* task horizon, got arithmetic'):
      live.of(c, SEEDS)
    c = base.get_config('smoke,horizon,interventions')
    c.audit.every, c.task.correct_at = c.log_every, 1
    with self.assertRaisesRegex(ValueError, 'no interventions: task.correct_at=1'):
      live.of(c, SEEDS)

  def test_a_loop_without_an_audit_says_so(self):
    with self.assertRaisesRegex(ValueError, 'audit.every=2: this run was given no audit'):
      loop.run(small(), seeds=SEEDS)

  def test_a_lost_file_is_missed(self):
    root = runs()[1]
    text = self.read('broken', 'audit.jsonl')
    (root / 'broken' / 'audit.jsonl').unlink()
    self.addCleanup((root / 'broken' / 'audit.jsonl').write_bytes, text)
    with self.assertRaisesRegex(ValueError, 'audit.jsonl lacks 6 lines .* step 0 and seed 3'):
      loop.run(small(), seeds=SEEDS, workdir=root / 'broken', audit=lambda *x: [])


class OwnTest(absltest.TestCase):

  def test_own_credit_of_every_config(self):
    actor = build.actor(small('grpo'))
    play = lambda key: sampler.sample(
        actor.policy, actor.policy.init(key), actor.task, actor.layout, actor.knobs, key, step=0,
        prompts=2, samples=4, temperature=1.0)
    rollout = jax.eval_shape(play, keys.root(0))
    flat = jax.ShapeDtypeStruct((2, 4, actor.layout.stream), np.float32)
    left = set()
    for name in docs.names():
      spec = build.plain(small(name))['method']
      try:
        method = catalogue.method(catalogue.own(spec), actor.layout)
      except ValueError:
        left.add(name)
        continue
      credit = lambda r, x, b, method=method: methods.credit(
          method, r, old_logp_PGT=x, values_PGT=x, baseline=b, last_PG=b, entropy_PGT=x,
          potential_PGT=x).advantages_PGT
      out = jax.eval_shape(credit, rollout, flat, jax.ShapeDtypeStruct((2, 4), np.float32))
      self.assertEqual(out.shape, flat.shape, name)
    self.assertContainsSubset({'vine_ppo', 'spo_tree', 'a_star_po', 'igpo'}, left)
    self.assertLess(len(left), 12, left)
    for name in ('grpo', 'ppo', 'sao', 'gigpo', 'running_mean'):
      self.assertNotIn(name, left)


if __name__ == '__main__':
  absltest.main()
