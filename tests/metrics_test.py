"""Metrics from the device to the file."""

import io
import json
import math
import pathlib
import sys
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import types
from grpo.learn import metrics
from grpo.learn import sinks


class Folder(parameterized.TestCase):

  def setUp(self):
    super().setUp()
    temporary = tempfile.TemporaryDirectory()
    self.addCleanup(temporary.cleanup)
    self.dir = pathlib.Path(temporary.name)
    self.path = self.dir / 'logs' / 'metrics.jsonl'

  def writer(self, resume=None):
    writer = metrics.Writer([sinks.JsonlSink(self.path, resume)])
    self.addCleanup(writer.close)
    return writer


class FinishTest(parameterized.TestCase):

  def test_means_of_unequal_parts_are_exact(self):
    """(4 + 30) / (4 + 10) = 2.428571, not (1 + 3) / 2 = 2."""
    window = {'loss': {'policy': types.Mean(np.float32([4, 30]), np.float32([4, 10]))},
              'ratio/max': types.Peak(np.float32([-3, -2]))}
    self.assertEqual(metrics.finish(window), {'loss/policy': 34 / 14, 'ratio/max': -2.0})
    parts = [jax.tree.map(lambda x, i=i: x[i], window) for i in range(2)]
    self.assertEqual(metrics.finish(metrics.merge(*parts)), metrics.finish(window))

  def test_counts_beyond_float32(self):
    """2^24 + 1 is no float32; a window of that many tokens must still count each of them."""
    big, one = (types.Mean(np.float32(n), np.float32(2 * n)) for n in (2**24, 1))
    merged = metrics.merge({'x': big}, {'x': one})
    self.assertEqual(merged['x'].total, 2**24 + 1)
    self.assertEqual(metrics.finish(merged), {'x': 0.5})

  def test_per_seed_and_pooled(self):
    tree = {'x': types.Mean(np.array([1., 6.]), np.array([1., 2.])),
            'm': types.Peak(np.array([1, 9]))}
    self.assertEqual(metrics.per_seed(tree), [{'x': 1.0, 'm': 1.0}, {'x': 3.0, 'm': 9.0}])
    self.assertEqual(metrics.finish(tree), {'x': 7 / 3, 'm': 9.0})

  def test_nothing_seen_is_left_out(self):
    tree = {'empty': types.Mean.of(jnp.ones(3), jnp.zeros(3, bool)),
            'none': types.Peak.of(jnp.ones(3), jnp.zeros(3, bool)),
            'zero': types.Mean.of(jnp.zeros(3))}
    self.assertEqual(metrics.finish(metrics.fetch(tree)), {'zero': 0.0})

  def test_other_leaves_are_refused(self):
    with self.assertRaisesRegex(ValueError, 'metric a/b must be a types.Mean'):
      metrics.finish({'a': {'b': np.float32(1)}})

  def test_first_bad_metric_is_named(self):
    metrics.check_finite(3, {'a': 1.0, 'b': -2})
    with self.assertRaisesRegex(metrics.NonFinite, 'step 7: loss/policy is nan') as caught:
      metrics.check_finite(7, {'a': 1.0, 'loss/policy': math.nan, 'z': math.inf})
    self.assertEqual((caught.exception.step, caught.exception.metric), (7, 'loss/policy'))

  def test_one_fetch_a_log_point_and_the_right_steps(self):
    """50 steps logged every 10, one window late: 5 fetches, (10, 10), (20, 20), ..."""
    calls, out = [], io.StringIO()
    fetch = metrics.fetch

    class Sink:
      write = staticmethod(lambda record: out.write(json.dumps(record) + '\n'))

    @jax.jit
    def stretch(step):
      step, seen = jax.lax.scan(lambda s, _: (s + 1, types.Peak.of(s + 1)), step, length=10)
      return step, {'counter': seen}

    with absltest.mock.patch.object(metrics, 'fetch', lambda x: calls.append(1) or fetch(x)):
      writer, state, waiting = metrics.Writer([Sink]), jnp.asarray(0, jnp.int32), None
      for step in (10, 20, 30, 40, 50, None):
        if waiting:
          writer.write(waiting[0], metrics.finish(metrics.fetch(waiting[1])))
        if step:
          state, seen = stretch(state)
          waiting = step, seen
    self.assertLen(calls, 5)
    self.assertEqual([json.loads(line) for line in out.getvalue().splitlines()],
                     [{'step': n, 'counter': float(n)} for n in (10, 20, 30, 40, 50)])


class WriterTest(Folder):

  def test_interleaved_axes_lose_nothing_and_resume_doubles_nothing(self):
    """A sampler at 0..50, a trainer at 0..5, an evaluation at 0 and 5; killed; resumed from 3."""
    def run(writer, first, last):
      for step in range(first, last + 1):
        for at in range(10 * (step - 1) + 1, 10 * step + 1) if step else [0]:
          writer.write(step, {'sample/length': at / 7}, axis=('sample', at))
        writer.write(step, {'loss/policy': 1 / (step + 1), 'step_time': step})
        if step in (0, 5):
          writer.write(step, {'eval/success': 0.5})
      writer.flush()

    run(self.writer(), 0, 5)
    whole = self.path.read_text()
    self.assertLen(whole.splitlines(), 51 + 6 + 2)
    with open(self.path, 'a') as f:
      f.write('{"step": 6, "loss/po')  # what a kill leaves
    resumed = self.writer(resume=3)
    self.assertLen(sinks.read(self.path), 31 + 4 + 1)
    run(resumed, 4, 5)
    self.assertEqual(self.path.read_text(), whole)
    self.assertEqual([p.name for p in self.path.parent.iterdir()], ['metrics.jsonl'])

  def test_fresh_start_removes_what_was_there(self):
    self.writer().write(4, {'a': 1})
    self.writer().write(0, {'a': 1})
    self.assertEqual(sinks.read(self.path), [{'step': 0, 'a': 1}])

  def test_a_line_that_is_no_record_is_named(self):
    for line in ('junk', '[1]', '{"seed": 0}'):
      self.path.parent.mkdir(exist_ok=True)
      self.path.write_text(f'{{"step": 0}}\n{line}\n')
      with self.assertRaisesRegex(ValueError, 'metrics.jsonl, line 2 is no'):
        self.writer(resume=3)

  def test_steps_never_go_back(self):
    writer = self.writer()
    writer.write(3, {'a': 1.0})
    writer.write(3, {'b': 1.0})
    writer.write(3, {'a': 1.0}, seed=1)
    writer.write(2, {'c': 1.0})
    for step in (2, 3):
      with self.assertRaisesRegex(ValueError, f'a was already written for step 3, and step {step}'):
        writer.write(step, {'a': 1.0})
    with self.assertRaisesRegex(ValueError, "a belongs to axis 'step', not 'sample'"):
      writer.write(4, {'a': 1.0}, axis=('sample', 9))
    with self.assertRaisesRegex(ValueError, "'seed' cannot name a metric"):
      writer.write(4, {'seed': 1.0})
    with self.assertRaisesRegex(ValueError, 'a was already written for step 3'):
      self.writer(resume=3).write(3, {'a': 1.0})

  def test_json_stays_valid(self):
    self.writer().write(1, {'a': math.nan, 'b': np.float32(0.1), 'c': -math.inf, 'n': np.int64(3)})
    line = self.path.read_text()
    self.assertNotRegex(line, 'NaN|Infinity')
    self.assertEqual(json.loads(line), {'step': 1, 'a': None, 'b': float(np.float32(0.1)),
                                        'c': None, 'n': 3, 'nonfinite': ['a', 'c']})

  def test_a_broken_file_is_not_guessed_at(self):
    self.path.parent.mkdir()
    self.path.write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with self.assertRaisesRegex(ValueError, 'line 2 is not JSON'):
      self.writer(resume=2)

  def test_tensorboard(self):
    calls = []

    class SummaryWriter:
      def __init__(self, logdir, purge_step=None):
        calls.append((logdir, purge_step))

      def add_scalar(self, *args):
        calls.append(args)

      close = flush = lambda self: None

    fake = type(sys)('tensorboardX')
    fake.SummaryWriter = SummaryWriter
    with absltest.mock.patch.dict(sys.modules, tensorboardX=fake):
      with metrics.Writer([sinks.TensorBoardSink('logs', resume=3)]) as writer:
        writer.write(4, {'a': 1.0, 'bad': math.nan}, seed=2)
        writer.write(4, {'b': 2.0}, axis=('sample', 40))
    self.assertEqual(calls, [('logs', 4), ('a/seed_2', 1.0, 4), ('b', 2.0, 40)])

  def test_wandb_is_offline_and_keeps_late_steps(self):
    calls = []

    class Run:
      define_metric = staticmethod(lambda name, step_metric: calls.append((name, step_metric)))
      log = staticmethod(calls.append)
      finish = staticmethod(lambda: calls.append('end'))

    fake = type(sys)('wandb')
    fake.init = lambda **kwargs: calls.append(kwargs['mode']) or Run
    with absltest.mock.patch.dict(sys.modules, wandb=fake):
      with metrics.Writer([sinks.WandbSink(self.dir / 'w')]) as writer:
        writer.write(4, {'a': 1.0})
        writer.write(5, {'a': 2.0})
    self.assertEqual(calls, ['offline', ('a', 'step'), {'a': 1.0, 'step': 4},
                             {'a': 2.0, 'step': 5}, 'end'])

  @parameterized.parameters(('tensorboardX', sinks.TensorBoardSink), ('wandb', sinks.WandbSink))
  def test_missing_packages_are_named(self, package, sink):
    with absltest.mock.patch.dict(sys.modules, {package: None}):
      with self.assertRaisesRegex(ValueError, f'pip install {package}'):
        sink(self.dir)
    with self.assertRaisesRegex(ValueError, "one of offline, online, disabled, got 'on'"):
      sinks.WandbSink(self.dir, mode='on')


if __name__ == '__main__':
  absltest.main()
