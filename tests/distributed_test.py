"""Two processes on the CPU give what one gives."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo.learn import distributed

ROOT = pathlib.Path(__file__).resolve().parents[1]

# A sharded sum, a step of gradient descent with data and parameters split, and a checkpoint that
# both processes write and read.
PROGRAM = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
jax.config.update('jax_platforms', 'cpu')
jax.config.update('jax_num_cpu_devices', 2)
from grpo.learn import checkpoint, distributed, sharding

several = distributed.initialize()
mesh = sharding.make_mesh()
rng = np.random.default_rng(0)
x = rng.normal(size=(8, 16)).astype(np.float32)
state = {'w': rng.normal(size=(16, 4)).astype(np.float32), 'step': np.zeros((), np.int32)}
places = sharding.state_shardings(state, mesh, min_size=1)
state = distributed.place(state, places)
x = distributed.place(x, sharding.over_prompts(mesh))

def step(state, x):
  value, grad = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(state['w'])
  return {'w': state['w'] - 0.5 * grad, 'step': state['step'] + 1}, value

total = jax.jit(jnp.sum, out_shardings=sharding.replicated(mesh))(x)
step = jax.jit(step, out_shardings=(places, sharding.replicated(mesh)))
state, loss = step(state, x)
with checkpoint.Checkpointer(sys.argv[1]) as saver:
  saver.save(1, state, meta={'a': 1})
with checkpoint.Checkpointer(sys.argv[1]) as saver:
  number, restored, meta = saver.restore_latest(state)
same = jax.tree.map(lambda a, b: bool(np.array_equal(a, b)), distributed.gather(restored),
                    distributed.gather(state))
state, loss2 = step(restored, x)
print(json.dumps(dict(
    several=several, devices=jax.device_count(), main=distributed.is_main(), total=float(total),
    losses=[float(loss), float(loss2)], w=distributed.gather(state)['w'].tolist(),
    number=number, meta=meta, same=all(jax.tree.leaves(same)),
    agreed=[distributed.agree(jax.process_index() == 1), distributed.agree(False)])))
"""

# A run of the loop on all devices, and its continuation from the last checkpoint.
RUN = """
import json, sys
import jax
jax.config.update('jax_platforms', 'cpu')
jax.config.update('jax_num_cpu_devices', 2)
from grpo.learn import distributed
distributed.initialize()
from grpo.learn import loop
from tests import learn_test

config = learn_test.small('grpo', **{'mesh.data': jax.device_count(), 'steps': 4})
out = loop.run(config, seeds=[3], workdir=sys.argv[1])
again = loop.run(config, seeds=[3], workdir=sys.argv[1])
show = lambda out: dict(success=out['success'].tolist(), sampled=out['sampled'].tolist(),
                        tokens=out['trained_tokens'])
print(json.dumps(dict(out=show(out), again=show(again))))
"""


def start(folder, program=PROGRAM, **env):
  env = dict(os.environ, PYTHONPATH=str(ROOT), JAX_PLATFORMS='cpu', **env)
  return subprocess.Popen([sys.executable, '-c', program, folder], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process):
  try:
    out, err = process.communicate(timeout=120)
  finally:
    process.kill()
  if process.returncode:
    raise AssertionError(err)
  return json.loads(out.splitlines()[-1])


class DistributedTest(parameterized.TestCase):

  def run_all(self, program):
    """What each of two processes prints, and one process alone; and the folder of the two."""
    with socket.socket() as s:
      s.bind(('localhost', 0))
      address = f'localhost:{s.getsockname()[1]}'
    folder = self.enterContext(tempfile.TemporaryDirectory())
    pair = [start(f'{folder}/two', program, JAX_COORDINATOR_ADDRESS=address,
                  JAX_NUM_PROCESSES='2', JAX_PROCESS_ID=str(i)) for i in range(2)]
    try:
      first, second = (finish(p) for p in pair)
    finally:
      for process in pair:
        process.kill()
    return first, second, finish(start(f'{folder}/one', program)), pathlib.Path(folder) / 'two'

  def test_a_run_of_two_processes_is_that_of_one(self):
    first, second, alone, folder = self.run_all(RUN)
    self.assertEqual(first, second)
    self.assertEqual(first['out'], first['again'])
    np.testing.assert_allclose(first['out']['success'], alone['out']['success'], atol=1e-5)
    np.testing.assert_allclose(first['out']['sampled'], alone['out']['sampled'], atol=1e-5)
    self.assertEqual(first['out']['tokens'], alone['out']['tokens'])
    lines = (folder / 'metrics.jsonl').read_text().splitlines()
    self.assertEqual([json.loads(line)['step'] for line in lines], [1, 2, 3, 4])

  def test_two_processes_agree_with_one(self):
    first, second, alone, _ = self.run_all(PROGRAM)
    self.assertEqual([r['several'] for r in (first, second, alone)], [True, True, False])
    self.assertEqual([r['devices'] for r in (first, second, alone)], [4, 4, 2])
    self.assertEqual([r['main'] for r in (first, second)], [True, False])
    self.assertEqual([r['agreed'] for r in (first, second, alone)],
                     [[True, False], [True, False], [False, False]])
    for result in (first, second):
      np.testing.assert_allclose(result['total'], alone['total'], atol=1e-5)
      np.testing.assert_allclose(result['losses'], alone['losses'], atol=1e-5)
      np.testing.assert_allclose(result['w'], alone['w'], atol=1e-5)
      self.assertEqual((result['number'], result['meta'], result['same']), (1, {'a': 1}, True))

  @parameterized.parameters(
      ({'JAX_NUM_PROCESSES': '2'}, 'need all of'),
      ({'JAX_NUM_PROCESSES': 'two'}, "must be a whole number, got 'two'"),
      ({'JAX_COORDINATOR_ADDRESS': 'localhost:1', 'JAX_NUM_PROCESSES': '2', 'JAX_PROCESS_ID': '2'},
       r'must be in 0 \.\. 1, got 2'))
  def test_bad_settings(self, env, message):
    with absltest.mock.patch.dict(os.environ, env):
      with self.assertRaisesRegex(ValueError, message):
        distributed.initialize()

  def test_one_process_needs_nothing(self):
    self.assertFalse(distributed.initialize())
    self.assertFalse(distributed.initialize('localhost:1', 1, 0))
    got = distributed.gather({'x': jnp.arange(3), 'key': jax.random.key(0)})
    self.assertIsInstance(got['x'], np.ndarray)
    self.assertEqual(got['key'].shape, (2,))


if __name__ == '__main__':
  absltest.main()
