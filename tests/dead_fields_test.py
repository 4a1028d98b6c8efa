"""Every field that is not a slot changes a traced program, or is listed with what it does instead.

The arguments of slots are bound to functions that must name them (grpo/slots.py), and must use
them: ruff, ARG001.
"""

import json
import pathlib

from absl.testing import absltest
import jax
import numpy as np

from configs import base
from grpo import build
from grpo import ranges
from grpo.learn import actors
from grpo.learn import loop

ROOT = pathlib.Path(__file__).resolve().parents[1]

# What the host does with a field. Such a field need not change a program.
HOST = {
    'size': 'what the other defaults were chosen for; read by configs themselves',
    'seed': 'the default of --seeds; keys are arguments of the programs',
    'steps': 'when the loop ends',
    'clone.steps': 'when cloning ends',
    'clone.pass_rate': 'when cloning ends',
    'checkpoint.every': 'when the loop saves',
    'audit.every': 'when the loop audits; 0 is never, and the other fields of audit rest',
    'audit.prompts': 'episodes of an audit, which is a program of its own: tests/live_test.py',
    'audit.group': 'likewise', 'audit.batches': 'likewise', 'audit.estimators': 'likewise',
    'checkpoint.keep': 'which checkpoints are removed',
    'mesh.data': 'where arrays live',
    'mesh.model': 'where arrays live',
    'window.carry': 'used from two windows on, see below',
    'window.forget': 'used from two windows on, see below',
    'window.compactions': 'likewise', 'train.summaries': 'likewise',
    'evaluate.heldout': 'chosen for a task that has held-out prompts, see below'}
CHANGED = {'method.old': 'recomputed', 'sample.prompts': 12, 'train.minibatches': 4,
           'window.turns': 1}


def config(**overrides):
  c = base.get_config('smoke,horizon')
  c.model = base.slot('tabular')
  c.task.horizon, c.window.turns = 2, 2
  c.method.kl, c.method.kl_coef = base.slot('k3'), 0.1
  with c.ignore_type():
    c.update_from_flattened_dict(overrides)
  return build.plain(c)


def text(traced):
  """A program: its operations, literals and constants."""
  closed = traced.jaxpr
  return str(closed), [np.asarray(x).tobytes() for x in closed.consts
                       if not jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)]


def programs(c):
  """The programs of a run, one after the other: training, evaluation, cloning."""
  subset, used = actors.shared(c, ())
  evaluate, initial, imitate = actors.programs(json.dumps(subset, sort_keys=True), used)
  train = loop.Programs(c)
  state = train.initial.eval_shape(np.arange(1, dtype=np.int32), None, ())
  carry = initial.eval_shape(state.key, ())
  yield text(train.stretch.trace(state, ()))
  yield text(evaluate.trace(carry[0], state.key, 0, ()))
  yield text(imitate.trace(carry, state.key, 0, np.zeros(1, bool), ()))


def other(path, value):
  """Another value of a field."""
  if path in CHANGED:
    return CHANGED[path]
  return value + 1 if isinstance(value, int) else value * 0.5 + 0.01


class DeadFieldsTest(absltest.TestCase):

  def differ(self, one, two, message=None):
    """Some program of two lists is another. They are made as they are compared."""
    self.assertTrue(any(a != b for a, b in zip(one, two)), message)

  def test_fields_change_a_program(self):
    plain = list(programs(config()))
    self.assertEqual(plain, list(programs(config())))
    slots = ('task.', 'model.', 'sample.delay.', 'train.decay.')
    checked = []
    for path, value in ranges.leaves(config()):
      if path in HOST or path.startswith(slots) or (
          path.startswith('method.') and path.count('.') > 1):
        continue
      with self.subTest(path):
        self.differ(programs(config(**{path: other(path, value)})), plain,
                    f'{path} changes no program: remove it, or say in HOST what it does')
      checked.append(path)
    self.assertContainsSubset({'sample.lag', 'train.b2', 'clone.noise', 'evaluate.group',
                               'method.reference_every', 'method.kl_coef'}, checked)

  def test_fields_of_the_host_exist_and_are_read(self):
    code = '\n'.join(p.read_text() for room in ('grpo', 'scripts')
                     for p in (ROOT / room).rglob('*.py'))
    for path in HOST:
      self.assertIn(path, dict(ranges.leaves(config())))
      if path != 'size':
        self.assertRegex(code, rf"\['{path.split('.')[-1]}'\]|config\.{path}\b", path)

  def test_fields_that_need_another_setting(self):
    windows = dict(zip(('task.horizon', 'window.turns'), (4, 2)))
    self.differ(programs(config(**windows)), programs(config(**windows, **{'window.carry': 2})))
    windows |= {'window.carry': 2}
    self.differ(programs(config(**windows)), programs(config(**windows, **{'window.forget': 1})))
    windows |= {'window.carry': 1}
    limit = {'window.compactions': 0}
    self.differ(programs(config(**windows)), programs(config(**windows, **limit)))
    windows |= {'window.summary': 2}
    self.differ(programs(config(**windows)), programs(config(**windows, **{'train.summaries': 0})))
    stairs = dict(drift=dict(name='stairs', at=[1], to=[0.0, 0.5]))
    self.differ(programs(config()), programs(build.plain(config(), {'schedule': stairs})))
    laws = (dict(name='constant'), dict(name='log_normal', sigma=0.5),
            dict(name='log_normal', sigma=0.6), dict(name='by_length', sigma=0.5))
    late = [next(programs(build.plain(config(**{'sample.lag': 1}), {'sample.delay': law})))
            for law in laws]
    for i, one in enumerate(late):
      for two in late[:i]:
        self.differ([one], [two])
    falls = (dict(name='constant'), dict(name='linear'), dict(name='linear', floor=0.2),
             dict(name='linear', length=9), dict(name='cosine'))
    fallen = [next(programs(build.plain(config(), {'train.decay': fall}))) for fall in falls]
    for i, one in enumerate(fallen):
      for two in fallen[:i]:
        self.differ([one], [two])
    countdown = lambda heldout: build.plain(base.get_config('smoke,countdown')) | dict(
        model=dict(name='tabular'), evaluate=dict(prompts=4, group=1, heldout=heldout))
    self.differ(*([list(programs(countdown(heldout)))[1]] for heldout in (0, 1)))


if __name__ == '__main__':
  absltest.main()
