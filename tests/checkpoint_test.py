"""Checkpoints: bitwise, typed, and never torn."""

import contextlib
import io
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np
import optax

from grpo.learn import checkpoint
from grpo.learn import manifests
from grpo.learn import sharding

ROOT = pathlib.Path(__file__).resolve().parents[1]
KILLS = int(os.environ.get('CHECKPOINT_KILLS', 4))
# Saves steps without end, each state a function of its step, so that any torn mixture shows.
ENDLESS = """
import itertools, sys
import jax, jax.numpy as jnp
from grpo.learn import checkpoint

def state(step):
  return {'w': jnp.full([300, 1000], step, jnp.float32),
          'many': [jnp.full([7], step, jnp.int32)] * 5, 'step': jnp.asarray(step, jnp.int32)}

with checkpoint.Checkpointer(sys.argv[1], keep=1) as saver:
  found = saver.restore_latest(state(0))
  first = 1
  if found:
    step, restored, meta = found
    same = jax.tree.map(lambda a, b: bool((a == b).all()), restored, state(step))
    assert all(jax.tree.leaves(same)) and meta == {'n': step}, (step, same, meta)
    first = step + 1
  for step in itertools.count(first):
    saver.save(step, state(step), meta={'n': step})
    if step == first:
      saver.wait()
      print('resumed at', first - 1, flush=True)
"""

# Loses its folder in mid-run: the exit status must say so.
LOSES_FOLDER = """
import pathlib, shutil, sys
import jax.numpy as jnp
from grpo.learn import checkpoint

with checkpoint.Checkpointer(sys.argv[1], keep=1) as saver:
  saver.save(1, {'w': jnp.ones(3)})
  saver.wait()
  shutil.rmtree(sys.argv[1])
  pathlib.Path(sys.argv[1]).write_text('in the way')
  saver.save(2, {'w': jnp.ones(3)})
print('not reached')
"""


def child(code, folder):
  env = dict(os.environ, PYTHONPATH=str(ROOT), JAX_PLATFORMS='cpu')
  return subprocess.Popen([sys.executable, '-c', code, str(folder)], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def bits(tree):
  """Bytes of every leaf, with dtype and shape."""
  def one(x):
    x = jax.random.key_data(x) if manifests.is_key(x) else x
    return str(x.dtype), x.shape, np.asarray(x).tobytes()
  return jax.tree.map(one, tree)


def sample_state():
  params = {'dense/odd.name': {'w': jax.random.normal(jax.random.key(0), [8, 6], jnp.bfloat16)},
            'list': [jnp.asarray([jnp.nan, -0.0, jnp.inf]), jnp.asarray(1.5, jnp.float16)]}
  return dict(
      params=params, opt_state=optax.adamw(1e-3, mu_dtype=jnp.float32).init(params),
      key=jax.random.key(3), keys=jax.random.split(jax.random.key(4, impl='rbg'), 3),
      reference=None, waiting=jnp.zeros([0, 4], jnp.int32), flag=jnp.asarray([True, False]),
      counter=jnp.asarray([2**32 - 1, 7], jnp.uint32), host=np.arange(3, dtype=np.int64))


class CheckpointTest(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    temporary = tempfile.TemporaryDirectory()
    self.addCleanup(temporary.cleanup)
    self.dir = pathlib.Path(temporary.name) / 'checkpoints'

  def save(self, step, state, **kwargs):
    with checkpoint.Checkpointer(self.dir, **kwargs) as saver:
      saver.restore_latest(state)
      saver.save(step, state, meta={'step': step})

  def restore(self, target):
    errors = io.StringIO()
    with checkpoint.Checkpointer(self.dir) as saver, contextlib.redirect_stderr(errors):
      return saver.restore_latest(target), errors.getvalue()

  @parameterized.parameters('concrete', 'abstract')
  def test_every_bit_comes_back(self, kind):
    state = sample_state()
    self.assertIsNone(self.restore(state)[0])
    self.save(5, state)
    target = state if kind == 'concrete' else dict(
        jax.eval_shape(lambda: {k: v for k, v in state.items() if k != 'host'}), host=state['host'])
    (step, restored, meta), _ = self.restore(target)
    self.assertEqual((step, meta), (5, {'step': 5}))
    self.assertEqual(jax.tree.structure(restored), jax.tree.structure(state))
    self.assertEqual(bits(restored), bits(state))
    self.assertIsInstance(restored['host'], np.ndarray)
    self.assertEqual(jax.random.key_impl(restored['keys']), 'rbg')
    self.assertEqual(jax.random.bits(restored['key']), jax.random.bits(jax.random.key(3)))

  def test_adam_goes_on_as_if_never_stopped(self):
    optimiser = optax.adam(1e-2)
    params = {'w': jnp.arange(4.0)}

    def step(params, opt_state):
      updates, opt_state = optimiser.update(jax.tree.map(jnp.sin, params), opt_state, params)
      return optax.apply_updates(params, updates), opt_state

    state = params, optimiser.init(params)
    for _ in range(3):
      state = step(*state)
    self.save(3, state)
    (_, restored, _), _ = self.restore(jax.eval_shape(lambda: state))
    whole, resumed = step(*state), step(*restored)
    self.assertEqual(bits(resumed), bits(whole))
    self.assertEqual(int(resumed[1][0].count), 4)

  @parameterized.named_parameters(
      ('dtype', lambda s: s | {'b': s['b'].astype(jnp.float32)}, r"state\['b'\] is bfloat16\[3\]"),
      ('shape', lambda s: s | {'b': s['b'][:2]}, r"state\['b'\] is bfloat16\[3\]"),
      ('missing', lambda s: s | {'c': s['b']}, r"no leaf state\['c'\]"),
      ('extra', lambda s: {'a': s['a']}, r"has a leaf state\['b'\]"),
      ('none', lambda s: s | {'a': None}, r"state\['a'\] is int32\[\] in .* and None"),
      ('key', lambda s: s | {'k': jax.random.key(0, impl='rbg')}, r"state\['k'\] is key<fry>\[\]"),
      ('container', lambda s: s | {'b': [s['b']]}, r"no leaf state\['b'\]\[0\]"),
  )
  def test_mismatch_names_the_leaf(self, change, message):
    state = {'a': jnp.asarray(1, jnp.int32), 'b': jnp.ones(3, jnp.bfloat16), 'k': jax.random.key(0)}
    self.save(1, state)
    with self.assertRaisesRegex(ValueError, message):
      self.restore(change(state))

  @parameterized.named_parameters(
      ('number', 3.0, 'is a float'), ('scalar', np.float32(3), 'is a float32'),
      ('weak', lambda: jnp.full([2], 3.0), 'is weakly typed'))
  def test_leaves_that_would_change_type_are_refused(self, leaf, message):
    leaf = leaf() if callable(leaf) else leaf
    with self.assertRaisesRegex(ValueError, r"state\['x'\] " + message):
      self.save(1, {'x': leaf})

  def test_state_may_be_donated_at_once(self):
    clear = jax.jit(lambda x: x * 0, donate_argnums=0)
    with checkpoint.Checkpointer(self.dir, keep=1) as saver:
      for step in range(1, 6):
        w = jnp.full([400, 1000], step, jnp.float32)
        saver.save(step, {'w': w})
        clear(w).block_until_ready()
    (_, restored, _), _ = self.restore({'w': jax.ShapeDtypeStruct([400, 1000], jnp.float32)})
    np.testing.assert_array_equal(restored['w'], np.full([400, 1000], 5, np.float32))

  def test_onto_other_devices(self):
    """Saved from 4 devices, with seeds in front; restored onto 2, 1 and 4 in another layout."""
    def state(mesh):
      state = {'w': jnp.arange(2 * 8 * 12.0).reshape(2, 8, 12),
               'key': jax.random.split(jax.random.key(0), 2)}
      return jax.device_put(state, sharding.state_shardings(state, mesh, seeds=True, min_size=1))

    saved = state(sharding.make_mesh(4))
    self.save(1, saved)
    for shape in ((2, 1), (1, 1), (2, 2)):
      mesh = sharding.make_mesh(*shape)
      abstract = jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s),
                              saved, sharding.state_shardings(saved, mesh, seeds=True, min_size=1))
      (_, restored, _), _ = self.restore(abstract)
      self.assertEqual(bits(restored), bits(saved))
      for x, y in zip(jax.tree.leaves(restored), jax.tree.leaves(abstract), strict=True):
        self.assertTrue(x.sharding.is_equivalent_to(y.sharding, x.ndim), (x.sharding, y.sharding))
    places = jax.NamedSharding(sharding.make_mesh(4), jax.P('data'))
    bad = jax.ShapeDtypeStruct((2, 8, 12), jnp.float32, sharding=places)
    with self.assertRaisesRegex(ValueError, r"state\['w'\].*does not fit its sharding"):
      self.restore({'w': bad, 'key': saved['key']})

  @parameterized.parameters('cut', 'flip', 'missing', 'no manifest')
  def test_a_damaged_checkpoint_is_skipped_by_name(self, damage):
    state = {'w': jnp.arange(1000.0)}
    for step in (1, 2):
      self.save(step, state)
    path = self.dir / 'step_2'
    file = max((p for p in path.rglob('*') if p.is_file()), key=lambda p: p.stat().st_size)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    if damage == 'cut':
      file.write_bytes(content[:-1])
    elif damage == 'flip':
      file.write_bytes(content)
    elif damage == 'missing':
      file.unlink()
    else:
      (path / manifests.FILE).unlink()
    (step, restored, _), errors = self.restore(state)
    self.assertEqual(step, 1)
    self.assertIn(f'skipping checkpoint {path}', errors)
    self.assertEqual(bits(restored), bits(state))
    with contextlib.redirect_stderr(io.StringIO()):  # the damaged step can be saved again
      self.save(2, state, keep=1)
    self.assertEqual(self.restore(state)[0][0], 2)
    self.assertEqual([p.name for p in self.dir.iterdir()], ['step_2'])

  def test_all_damaged_is_an_error_not_a_fresh_start(self):
    state = {'w': jnp.ones(3)}
    self.save(1, state)
    shutil.rmtree(self.dir / 'step_1' / 'arrays')
    with self.assertRaisesRegex(RuntimeError, 'no checkpoint in .* can be read'):
      self.restore(state)

  def test_half_written_leftovers_do_not_block(self):
    state = {'w': jnp.ones(3)}
    for name in ('step_2', 'step_9', '.writing_2/arrays', '.writing_7', '.deleting_1'):
      (self.dir / name).mkdir(parents=True, exist_ok=True)
      (self.dir / name / 'junk').write_text('{')
    with checkpoint.Checkpointer(self.dir, keep=1) as saver:
      saver.save(2, state)
    self.assertEqual(self.restore(state)[0][0], 2)
    self.assertEqual([p.name for p in self.dir.iterdir()], ['step_2'])

  def test_keeps_the_newest_and_never_goes_back(self):
    state = {'w': jnp.ones(3)}
    with checkpoint.Checkpointer(self.dir, keep=2, every=10) as saver:
      self.assertEqual([saver.due(s) for s in (0, 9, 10, 13)], [False, False, True, True])
      for step in (10, 20, 30):
        saver.save(step, state)
      saver.save(30, state)
      saver.wait()
      self.assertEqual([saver.due(s) for s in (30, 39, 40)], [False, False, True])
      self.assertCountEqual([p.name for p in self.dir.iterdir()], ['step_20', 'step_30'])
    with checkpoint.Checkpointer(self.dir) as saver:
      with self.assertRaisesRegex(ValueError, 'already holds step 30'):
        saver.save(10, state)

  def test_bad_arguments(self):
    with checkpoint.Checkpointer(self.dir) as saver:
      with self.assertRaisesRegex(ValueError, 'plain JSON'):
        saver.save(1, {}, meta={'x': float('nan')})
    for kwargs, message in ((dict(keep=0), 'keep'), (dict(every=-1), 'every')):
      with self.assertRaisesRegex(ValueError, message):
        checkpoint.Checkpointer(self.dir, **kwargs)
    file = self.dir / 'file'
    file.write_text('')
    with self.assertRaisesRegex(ValueError, 'cannot make checkpoint folder'):
      checkpoint.Checkpointer(file / 'below')

  def test_a_failed_background_save_raises_at_the_next_call(self):
    saver = checkpoint.Checkpointer(self.dir)
    saver.save(1, {'w': jnp.ones(3)})
    saver.wait()
    with absltest.mock.patch.object(manifests, 'checksum', side_effect=OSError('disk full')):
      saver.save(2, {'w': jnp.ones(3)})
      saver._pending[1].exception()
    with self.assertRaisesRegex(RuntimeError, 'saving step 2 .* failed: disk full'):
      saver.save(3, {'w': jnp.ones(3)})
    saver.close()
    self.assertEqual(self.restore({'w': jnp.ones(3)})[0][0], 1)

  def test_a_folder_lost_in_mid_run_fails_the_run(self):
    process = child(LOSES_FOLDER, self.dir)
    out, err = process.communicate()
    self.assertEqual((process.returncode, out), (1, ''))
    self.assertIn(str(self.dir), err.splitlines()[-1])

  def test_killed_at_any_moment_it_resumes_from_a_complete_step(self):
    rng = random.Random(0)
    resumed = []
    for _ in range(KILLS + 1):
      process = child(ENDLESS, self.dir)
      line = process.stdout.readline()
      self.assertStartsWith(line, 'resumed at', process.stderr.read() if not line else '')
      resumed.append(int(line.split()[-1]))
      time.sleep(rng.uniform(0, 0.5))
      process.kill()
      process.communicate()
    self.assertEqual(resumed, sorted(resumed))
    self.assertLen(set(resumed), KILLS + 1)


if __name__ == '__main__':
  absltest.main()
