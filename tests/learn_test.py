"""Tests of the training step and the loop: resume, seeds, meshes, micro-batches, faults."""

import importlib
import json
import pathlib
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import jax
import numpy as np

from configs import base
from grpo import build
from grpo.learn import checkpoint
from grpo.learn import loop
from grpo.learn import metrics
from grpo.learn import sinks
from grpo.learn import state as states


def small(name='grpo', **overrides):
  """A variant on a tabular policy, which compiles in seconds."""
  config = importlib.import_module(f'configs.{name}').get_config('smoke,horizon')
  config.model = base.slot('tabular')
  config.clone.steps = 0
  config.task.horizon, config.task.actions, config.window.turns = 3, 2, 3
  config.task.decisive = 1
  config.steps, config.log_every, config.checkpoint.every = 4, 1, 2
  config.train.learning_rate = 0.1
  config.evaluate.prompts = 16
  with config.ignore_type():
    config.update_from_flattened_dict(overrides)
  return config


class Interrupt(Exception):
  pass


class LoopTest(parameterized.TestCase):

  @parameterized.parameters('grpo', 'sao')
  def test_resume_is_bitwise(self, name):
    fall = dict(name='cosine') if name == 'grpo' else dict(name='constant')
    config = small(name, **{'train.decay': fall})

    def interrupt(step, _):
      if step == 3:  # after the checkpoint of step 2, before that of step 4
        raise Interrupt

    with tempfile.TemporaryDirectory() as folder:
      whole, broken = pathlib.Path(folder) / 'whole', pathlib.Path(folder) / 'broken'
      expected = loop.run(config, seeds=[3, 5], workdir=whole)
      with self.assertRaises(Interrupt):
        loop.run(config, seeds=[3, 5], workdir=broken, on_progress=interrupt)
      said = []
      actual = loop.run(config, seeds=[3, 5], workdir=broken, on_stage=said.append)
      self.assertEqual(said, ['compiling the training program',
                              'training; the first numbers are those of step 3'])
      for key, value in expected.items():
        np.testing.assert_array_equal(actual[key], value, key)
      machine = sinks.read(broken / 'machine.jsonl')
      self.assertEqual([r['step'] for r in machine], [1, 2, 3, 4])
      self.assertGreater(machine[1]['tokens/per_second'], 0)
      self.assertGreater(machine[0]['memory/host_mib'], 0)
      self.assertEqual((whole / 'metrics.jsonl').read_text(),
                       (broken / 'metrics.jsonl').read_text())
      found = [self._state(config, path) for path in (whole, broken)]
      jax.tree.map(np.testing.assert_array_equal, *found)

  def test_what_a_slot_refuses_leaves_no_folder(self):
    config = small('dapo', **{'method.filter.informative.by': 'length'})
    with tempfile.TemporaryDirectory() as folder:
      with self.assertRaisesRegex(ValueError, "by='length'; allowed: reward"):
        loop.run(config, seeds=[0], workdir=pathlib.Path(folder) / 'run')
      self.assertEqual(list(pathlib.Path(folder).iterdir()), [])

  def _state(self, config, path):
    plain = build.plain(config)
    programs = loop.Programs(plain)
    shapes = programs.initial.eval_shape(np.asarray([3, 5], np.int32), None, ())
    with checkpoint.Checkpointer(path / 'checkpoints') as store:
      step, state, _ = store.restore_latest(shapes)
    self.assertEqual(step, 4)
    return jax.tree.map(lambda x: np.asarray(jax.random.key_data(x))
                        if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else np.asarray(x),
                        state)

  def test_seeds_and_settings_do_not_mix(self):
    config = small()
    together = loop.run(config, seeds=[0, 1, 0],
                        settings={'train.learning_rate': [0.1, 0.1, 0.0]})
    for i, (seed, rate) in enumerate(((0, 0.1), (1, 0.1), (0, 0.0))):
      alone = loop.run(config, seeds=[seed], settings={'train.learning_rate': [rate]})
      np.testing.assert_allclose(together['success'][:, i], alone['success'][:, 0], atol=1e-6)
    self.assertFalse(np.array_equal(together['sampled'][:, 0], together['sampled'][:, 1]))

  @parameterized.parameters(dict(micro=4), dict(micro=2), dict(data=4))
  def test_splitting_changes_nothing(self, micro=1, data=1):
    run = lambda **changes: loop.run(small('ppo', **{'train.minibatches': 2} | changes), seeds=[0],
                                     workdir=None, on_progress=None)
    one, other = run(), run(**{'train.micro': micro, 'mesh.data': data})
    np.testing.assert_allclose(one['success'], other['success'], atol=1e-5)
    self.assertEqual(one['trained_tokens'], other['trained_tokens'])

  def test_a_split_model_trains_as_a_whole_one(self):
    """Tensor parallelism: hidden and mlp make every kernel large enough to be split."""
    shape = base.get_config('smoke').model.to_dict()
    shape |= dict(layers=1, hidden=64, mlp=64, head_dim=32)
    config = lambda model: small('grpo', **{
        'model': shape,
        'train.learning_rate': 1e-3, 'mesh.model': model, 'mesh.data': model, 'steps': 2})
    finals = []
    for model in (1, 2):
      programs = loop.Programs(build.plain(config(model)))
      state = programs.initial(np.zeros(1, np.int32), None, ())
      for _ in range(2):
        state, _, _ = programs.stretch(state, ())
      finals.append(jax.device_get(state.params))
    self.assertIn('model', state.params['layers']['0']['mlp']['up']['kernel'].sharding.spec)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), *finals)

  def test_a_mesh_that_splits_nothing_is_refused(self):
    with self.assertRaisesRegex(ValueError, 'mesh.model=2 splits nothing'):
      loop.run(small(**{'mesh.model': 2}), seeds=[0])

  def test_non_finite_keeps_the_last_good_state(self):
    config = small(**{'train.clip_norm': 1e30, 'train.learning_rate': 1e38, 'steps': 6,
                      'checkpoint.every': 6})
    with tempfile.TemporaryDirectory() as folder:
      with self.assertRaises(metrics.NonFinite) as caught:
        loop.run(config, seeds=[0], workdir=folder)
      self.assertIn('seed 0', str(caught.exception))
      lines = sinks.read(pathlib.Path(folder) / 'metrics.jsonl')
      self.assertTrue(any('nonfinite' in line for line in lines))
      plain = build.plain(config)
      programs = loop.Programs(plain)
      shapes = programs.initial.eval_shape(np.asarray([0], np.int32), None, ())
      with checkpoint.Checkpointer(pathlib.Path(folder) / 'checkpoints') as store:
        _, state, _ = store.restore_latest(shapes)
      for leaf in jax.tree.leaves(state.params):
        self.assertTrue(np.isfinite(leaf).all())
      self.assertGreaterEqual(int(state.bad_step[0]), 0)

  def test_rate_zero_moves_no_ratio(self):
    rows = []
    config = small(**{'train.learning_rate': 0.0, 'train.minibatches': 2, 'train.epochs': 3})
    with tempfile.TemporaryDirectory() as folder:
      loop.run(config, seeds=[0], workdir=folder)
      rows = sinks.read(pathlib.Path(folder) / 'metrics.jsonl')
    for row in rows:
      self.assertLess(row['gap/logp'], 1e-5)
      self.assertLess(row['ratio/log_abs_max'], 1e-5)
      self.assertEqual(row.get('ratio/clip_fraction', 0.0), 0.0)

  def test_stale_rollouts_carry_the_old_policy(self):
    with tempfile.TemporaryDirectory() as folder:
      loop.run(small('grpo_dis', **{'sample.lag': 2, 'train.learning_rate': 0.3}), seeds=[0],
               workdir=folder)
      rows = sinks.read(pathlib.Path(folder) / 'metrics.jsonl')
    self.assertNotIn('stale/lag', rows[0])  # nothing has waited long enough yet
    self.assertEqual(rows[-1]['stale/lag'], 2.0)
    self.assertGreater(rows[-1]['gap/logp'], 1e-3)

  def test_reference_is_reset_on_time(self):
    drift = {}
    for every in (0, 1):
      with tempfile.TemporaryDirectory() as folder:
        loop.run(small('grpo', **{'method.kl': {'name': 'k3'}, 'method.kl_coef': 0.01,
                                  'method.reference_every': every, 'train.minibatches': 1,
                                  'train.learning_rate': 0.3}), seeds=[0], workdir=folder)
        rows = sinks.read(pathlib.Path(folder) / 'metrics.jsonl')
        drift[every] = [abs(row['kl/reference']) for row in rows]
    # Reset after every step, the reference is the policy that each step starts from.
    self.assertLess(max(drift[1]), 1e-6)
    self.assertGreater(drift[0][-1], 1e-3)

  def test_recomputed_anchor_is_that_of_the_sampler_on_fresh_rollouts(self):
    one, other = (loop.run(small('grpo', **{'method.old': old}), seeds=[0])
                  for old in ('sampler', 'recomputed'))
    np.testing.assert_allclose(one['success'], other['success'], atol=1e-5)

  def test_a_folder_that_lost_a_file_is_refused(self):
    config = small()
    with tempfile.TemporaryDirectory() as folder:
      root = pathlib.Path(folder)
      loop.run(config, seeds=[3], workdir=root)
      log, identity = (root / 'metrics.jsonl'), (root / 'config.json')
      lines, said = log.read_text(), identity.read_text()
      log.write_text(''.join(lines.splitlines(keepends=True)[1:]))
      with self.assertRaisesRegex(ValueError, 'lacks 1 lines .* step 1 and seed 3'):
        loop.run(config, seeds=[3], workdir=root)
      log.unlink()
      with self.assertRaisesRegex(ValueError, 'lacks 4 lines'):
        loop.run(config, seeds=[3], workdir=root)
      log.write_text(lines)
      identity.unlink()
      with self.assertRaisesRegex(ValueError, 'no config.json'):
        loop.run(config, seeds=[4], workdir=root)
      identity.write_text('{')
      with self.assertRaisesRegex(ValueError, 'config.json cannot be read'):
        loop.run(config, seeds=[3], workdir=root)
      identity.write_text(said)
      loop.run(config, seeds=[3], workdir=root)
      self.assertEqual(log.read_text(), lines)

  def test_a_sink_that_cannot_open_says_so(self):
    def broken(step):
      raise ValueError('needs a package')
    with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ValueError, 'a package'):
      loop.run(small(), seeds=[0], workdir=folder, sinks=[broken])

  @parameterized.parameters(-1, 2 ** 31)
  def test_seeds_that_do_not_fit(self, seed):
    with self.assertRaisesRegex(ValueError, f'seed {seed}: must be from 0 to'):
      loop.run(small(), seeds=[seed])

  def test_another_config_in_the_folder_is_refused(self):
    with tempfile.TemporaryDirectory() as folder:
      loop.run(small(), seeds=[0], workdir=folder)
      with self.assertRaisesRegex(ValueError, 'train.learning_rate'):
        loop.run(small(**{'train.learning_rate': 0.2}), seeds=[0], workdir=folder)
      saved = json.loads((pathlib.Path(folder) / 'config.json').read_text())
      self.assertEqual(saved['seeds'], [0])

  def test_tabular_policy_learns_the_task(self):
    config = small(**{'steps': 40, 'log_every': 40, 'checkpoint.every': 40, 'sample.prompts': 16})
    out = loop.run(config, seeds=[0, 1])
    self.assertLess(out['success'][0].max(), 0.6)
    self.assertGreater(out['success'][-1].min(), 0.9)


class CounterTest(absltest.TestCase):

  def test_carry(self):
    counters, amount = states.no_counts(), 2**31 - 1
    for _ in range(5):
      counters = states.count(counters, **{name: amount for name in states.COUNTERS})
    self.assertEqual(set(states.values(counters).values()), {5 * amount})


if __name__ == '__main__':
  absltest.main()
