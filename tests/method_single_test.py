"""Compositions without critic or tree: what must hold for each, and what crosses steps."""

import functools
import importlib
import tempfile

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from configs import base
from grpo import build
from grpo import check
from grpo import keys
from grpo.learn import checkpoint
from grpo.learn import loop
from grpo.learn import state as states
from grpo.learn import step as steps
from grpo.objective import advantages
from grpo.objective import aggregate
from grpo.objective import baselines
from grpo.objective import corrections
from grpo.objective import gates
from grpo.objective import quadratic
from grpo.objective import ratios
from grpo.objective import rewards
from grpo.objective import surrogates
from grpo.objective import trust
from grpo.objective import weigh
from tests import method_test
from tests import rollouts

partial = functools.partial
PLAIN = dict(ratio=ratios.none, surrogate=surrogates.reinforce)
CLIP = dict(aggregate=aggregate.token)
METHODS = {
    'gmpo': rollouts.make(surrogate=partial(trust.gmpo, low=0.4, high=0.4)),
    'sapo': rollouts.make(surrogate=trust.sapo),
    'rfpp_baseline': rollouts.make(advantages=baselines.center_whiten, **CLIP),
    'gpg': rollouts.make(advantages=baselines.informative_center, **PLAIN, **CLIP),
    'opo': rollouts.make(advantages=baselines.length_weighted, **PLAIN, **CLIP),
    'bnpo': rollouts.make(advantages=baselines.beta_density),
    'dppo_tv': rollouts.make(surrogate=trust.dppo_tv, **CLIP),
    'dppo_kl': rollouts.make(surrogate=trust.dppo_kl, **CLIP),
    'maxrl': rollouts.make(advantages=baselines.mean_over_mean, **CLIP),
    'gdpo': rollouts.make(shape=(partial(rewards.overlong, max_length=7, cache=5),),
                          advantages=baselines.decoupled_zscore),
    'prefix': rollouts.make(weigh=(weigh.prefix_share,), **CLIP),
    'uncertainty': rollouts.make(weigh=(weigh.uncertainty,), **CLIP),
    'kimi': rollouts.make(advantages=advantages.group_center, ratio=ratios.product,
                          surrogate=partial(quadratic.squared, tau=0.5)),
    'pmd': rollouts.make(advantages=partial(baselines.log_mean_exp, tau=0.5),
                         ratio=ratios.product, surrogate=partial(quadratic.pmd, tau=0.1)),
    'dro': rollouts.make(advantages=advantages.group_center,
                         surrogate=partial(quadratic.dro, beta=0.1), **CLIP),
    'vespo': rollouts.make(ratio=ratios.product, surrogate=trust.vespo, **CLIP),
    'flash': rollouts.make(advantages=baselines.batch_center, surrogate=trust.importance,
                           gate=(partial(gates.sequence_kl, delta=0.5),)),
    'tis': rollouts.make(old='recomputed', correction=(corrections.tis,)),
    'icepop': rollouts.make(old='recomputed', correction=(partial(corrections.icepop, low=0.1),)),
    'reject': rollouts.make(old='recomputed', correction=(
        partial(corrections.reject, kind='k2', level='token', high=1.0),)),
    'opsm': rollouts.make(gate=(partial(gates.off_policy_sequence, delta=0.5),)),
    'pass_at_k': rollouts.make(advantages=baselines.best_of_group),
}
# Those that sort the tokens of a batch: no array of theirs stays split by its type alone.
SORTING = {
    'm2po': rollouts.make(old='recomputed', correction=(partial(corrections.m2po, tau=0.5),),
                          surrogate=trust.importance, **CLIP),
    'kl_cov': rollouts.make(surrogate=partial(trust.kl_cov, share=0.2), **CLIP),
    'top_entropy': rollouts.make(gate=(partial(gates.top_entropy, share=0.5),), **CLIP),
}
ALL = METHODS | SORTING


@functools.cache
def program(name):
  return jax.jit(partial(method_test.update, ALL[name]))


def plain(name, **overrides):
  """A small run of a config on the tabular policy, from uniform logits."""
  c = importlib.import_module(f'configs.{name}').get_config('smoke')
  c.model = base.slot('tabular')
  c.task.horizon, c.task.actions, c.window.turns = 3, 2, 3
  c.task.decisive = 1   # a policy of uniform tokens solves some of these
  c.log_every, c.steps, c.sample.prompts = 1, 4, 8 if c.sample.group > 1 else 32
  return build.plain(c, {k.replace('__', '.'): v for k, v in overrides.items()})


def run(c, steps, state=None):
  """State after some steps, and the metrics of the last."""
  programs = loop.Programs(c)
  state = programs.initial(np.arange(2, dtype=np.int32), None, ()) if state is None else state
  for _ in range(steps):
    state, metrics, _ = programs.stretch(state, ())
  return jax.block_until_ready(state), {
      k: np.asarray(getattr(v, 'total', getattr(v, 'value', None)))
      for k, v in metrics.unpack().items()}


def data(tree):
  """NumPy leaves, keys as their words."""
  raw = lambda x: jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
  return [np.asarray(raw(x)) for x in jax.tree.leaves(tree)]


@parameterized.parameters(*ALL)
class EveryMethodTest(parameterized.TestCase):

  def test_invariance(self, name):
    x = rollouts.draw(1, prompts=4)
    want, metrics = method_test.numpy(program(name)(x))
    self.assertTrue(all(np.all(np.isfinite(y)) for y in jax.tree.leaves((want, metrics))))
    self.assertGreater(np.linalg.norm(want['grad']), 0.0)
    np.testing.assert_array_equal(want['grad'][~want['mask']], 0.0)
    off, rng = ~x['mask'], np.random.default_rng(0)
    dirty = x | {k: np.where(off, rng.choice([np.nan, np.inf, -1e9], off.shape), x[k]).astype('f')
                 for k in ('rewards', 'old', 'logp', 'ref', 'values', 'entropy')}
    got, _ = method_test.numpy(program(name)(dirty))
    method_test.same(got, want, 0.0)
    prompts, samples = rng.permutation(4), rng.permutation(4)
    move = lambda y: y[prompts][:, samples] if np.ndim(y) else y
    got, _ = method_test.numpy(program(name)({k: move(v) for k, v in x.items()}))
    method_test.same(got, jax.tree.map(move, want), 1e-4)
    empty = x | dict(mask=np.zeros_like(x['mask']))
    for y in jax.tree.leaves(method_test.numpy(program(name)(empty))[0]):
      np.testing.assert_array_equal(y, 0.0)


class SplittingTest(parameterized.TestCase):

  @parameterized.parameters(*METHODS)
  def test_prompts_stay_split(self, name):
    mesh = jax.make_mesh((4,), ('data',), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
      split = jax.device_put(rollouts.draw(7, prompts=4), jax.P('data'))
      got, _ = jax.eval_shape(jax.jit(partial(method_test.update, METHODS[name])), split)
      for key in ('advantages', 'mask', 'grad'):
        self.assertEqual(got[key].sharding.spec, jax.P('data', None, None), key)

  @parameterized.parameters('tis', 'opsm', 'prefix')
  def test_micro_batches(self, name):
    x = rollouts.draw(7, prompts=4)
    want, got = (method_test.numpy(jax.jit(partial(method_test.update, METHODS[name], parts=n))(x))
                 for n in (1, 2))
    method_test.same(got[0], want[0])


class MemoryTest(parameterized.TestCase):

  @parameterized.parameters('spo_single', 'grpo_adaptive_kl')
  def test_resume_is_exact(self, name):
    """Four steps equal two steps, save, restore, two steps, to the bit."""
    c = plain(name)
    whole, _ = run(c, 4)
    half, _ = run(c, 2)
    with tempfile.TemporaryDirectory() as folder:
      with checkpoint.Checkpointer(folder) as store:
        store.save(2, half)
      with checkpoint.Checkpointer(folder) as store:
        _, restored, _ = store.restore_latest(jax.eval_shape(lambda: half))
    self.assertIsNotNone(restored.memory)
    again, _ = run(c, 2, restored)
    for got, want in zip(data(again), data(whole), strict=True):
      np.testing.assert_array_equal(got, want)
    self.assertFalse(all(np.array_equal(x, y) for x, y in zip(
        data(whole.memory), data(half.memory), strict=True)))

  def test_devices(self):
    """One and two devices keep the same memory."""
    one, _ = run(plain('spo_single'), 2)
    two, _ = run(plain('spo_single', mesh__data=2), 2)
    for got, want in zip(data(two.memory), data(one.memory), strict=True):
      np.testing.assert_allclose(got, want, 1e-5, 1e-5)


class StepTest(parameterized.TestCase):

  def test_greedy_baseline(self):
    """Greedy episodes are counted and move the baseline; none of them is trained on."""
    state, metrics = run(plain('remax'), 1)
    got = states.values(np.asarray(state.counters)[0])
    rows = plain('remax')['sample']['prompts']
    self.assertEqual(got['rollouts'], 2 * rows)
    self.assertLessEqual(got['trained_tokens'], got['sampled_tokens'] // 2 + rows)
    self.assertTrue(np.all(np.isfinite(metrics['advantage/abs'])))

  def test_optimal_value_from_the_reference(self):
    """Its episodes are counted, are of the same prompts, and none is one of the policy's own."""
    c = plain('a_star_po')
    state, metrics = run(c, 1)
    rows = c['sample']['prompts']
    self.assertEqual(states.values(np.asarray(state.counters)[0])['rollouts'], 9 * rows)
    self.assertTrue(np.all(np.isfinite(metrics['loss/policy'])))
    parts = build.parts(c)
    params = parts.policy.init(keys.root(0))
    draw = jax.jit(lambda **more: steps.sample(parts, params, keys.root(1), 0, **more),
                   static_argnames=('reference',))
    own, other = draw(), draw(reference=8)
    self.assertEqual(other.sample_id[0].tolist(), list(range(1, 9)))
    np.testing.assert_array_equal(own.prompt_id[:, 0], other.prompt_id[:, 0])
    size = parts.layout.prompt
    np.testing.assert_array_equal(own.tokens[:, 0, 0, :size], other.tokens[:, 3, 0, :size])
    same = np.all(np.asarray(own.tokens) == np.asarray(other.tokens), axis=(2, 3)).mean()
    self.assertLess(same, 0.5)

  @parameterized.parameters('grpo_tis', 'm2po')
  def test_corrections_see_staleness(self, name):
    """Fresh rollouts have weight 1; stale ones do not."""
    def spread(lag):
      c = plain(name, sample__lag=lag, train__learning_rate=0.3)
      check.check(c)
      state, metrics = run(c, 6)
      self.assertEqual(state.bad_step.tolist(), [-1, -1])
      return metrics
    fresh, stale = spread(0), spread(2)
    self.assertEqual(fresh['correction/dropped'].sum(), 0.0)
    if name == 'grpo_tis':
      self.assertNotAlmostEqual(float(stale['correction/weight'][0]),
                                float(fresh['correction/weight'][0]), 3)
    elif name == 'm2po':
      self.assertGreater(stale['correction/dropped'].sum(), 0.0)


class CheckTest(parameterized.TestCase):

  @parameterized.parameters(
      ('grpo', dict(method__correction={'w': {'name': 'tis'}}), 'method.old=sampler'),
      ('gmpo', dict(method__ratio={'name': 'sequence'}), 'method.ratio=token'),
      ('kimi', dict(method__ratio={'name': 'token'}), 'method.ratio=product'),
      ('kl_cov', dict(train__micro=2), 'train.micro must be 1'),
      ('clip_cov', dict(train__micro=2), 'train.micro must be 1'),
      ('remax', dict(sample__lag=1, method__surrogate={'name': 'importance'}), 'lag 0'),
      ('remax', dict(sample__greedy=0), 'nothing gives a baseline'),
      ('remax', dict(method__memory={'m': {'name': 'running_mean'}}), 'keep one of them'),
      ('grpo', dict(sample__greedy=1), 'no slot reads'),
      ('grpo', dict(method__memory={'k': {'name': 'adaptive_kl', 'target': 1.0, 'horizon': 10}}),
       'adaptive_kl scales a KL term'),
      ('gdpo', dict(method__shape={}), 'several rewards'),
      ('prefix_lambda', dict(sample__group=1, method__advantages={'name': 'raw'}), 'prefix_share'),
      ('opo', dict(sample__group=1), 'sample.group=1'),
      ('grpo', dict(sample__lag=1, method__old='recomputed'), 'method.correction'),
      ('a_star_po', dict(sample__reference=0), 'set sample.reference'),
      ('a_star_po', dict(sample__lag=1), 'use lag 0'),
      ('a_star_po', dict(method__correction={'w': {'name': 'tis'}}), 'never was the sampler'),
      ('a_star_po', dict(method__shape={'k': {'name': 'kl_in_reward', 'coef': 0.1}}),
       'they are one'),
      ('a_star_po', dict(method__shape={'s': {'name': 'scale', 'factor': 2.0}}), 'whole episodes'),
      ('a_star_po', dict(method__chunk={'name': 'turn'}, method__returns={
          'name': 'look_ahead', 'n': 0, 'discount': 1.0, 'bootstrap': 'none'}), 'whole episodes'),
      ('a_star_po', dict(method__advantages__beta=0.0), 'method.advantages.beta: must be above 0'),
      ('a_star_po', dict(method__surrogate__tau=-1.0), 'method.surrogate.tau: must be above 0'),
      ('dapo', dict(method__shape__overlong={'name': 'overlong', 'cache': 0.0}), 'overlong.cache'),
      ('grpo', dict(sample__reference=2), 'plays episodes that no slot reads'),
      ('grpo', dict(method__old='other'), 'sampler, recomputed, reference'),
  )
  def test_refused(self, name, overrides, message):
    with self.assertRaisesRegex(ValueError, message):
      check.check(plain(name, **overrides))

  def test_unknown_names_are_refused(self):
    for slot, module in (('advantages', 'length_weighted'), ('surrogate', 'dppo_tv')):
      c = plain('grpo', **{f'method__{slot}': {'name': module[:-1]}})
      with self.assertRaisesRegex(ValueError, module):
        build.parts(c)


if __name__ == '__main__':
  absltest.main()
