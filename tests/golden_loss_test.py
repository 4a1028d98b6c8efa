"""Worked examples of losses, in float64 and in float32."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo.objective import aggregate
from grpo.objective import auxiliary
from grpo.objective import critic
from grpo.objective import kl
from grpo.objective import method
from grpo.objective import ratios
from grpo.objective import returns
from grpo.objective import rewards
from grpo.objective import surrogates
from tests import golden
from tests import rollouts
from tests.golden import GOLDEN

partial = functools.partial
CONSTANT = partial(aggregate.constant_length, length=10)


@partial(jax.jit, static_argnames=('surrogate', 'slots'))
def policy(x, numbers, *, surrogate, slots):
  """Loss, gradient and metrics of a method with given advantages; `numbers` go to the surrogate."""
  slots = rollouts.make(surrogate=partial(surrogate, **numbers), **dict(slots))
  credit = method.Credit(
      advantages_PGT=x['advantage'], mask_PGT=x['mask'],
      turn_PGT=jnp.zeros(x['mask'].shape, jnp.int32), success_PG=x['correct'], targets_PGT=None,
      values_PGT=None, value_mask_PGT=None)
  weights = method.policy_weights(slots, credit)

  def loss(logp):
    return method.policy_loss(slots, logp, None, x['old'], x['ref'], credit, weights)

  (value, metrics), grad = jax.value_and_grad(loss, has_aux=True)(x['logp'])
  return value, grad, metrics


class LossTest(parameterized.TestCase):

  def policy(self, f, inputs, numbers=None, old='old_logp', advantage=None,
             surrogate=surrogates.ppo_clip, **slots):
    """Loss, gradient and metrics: four prompts with one row each."""
    if advantage is None:
      advantage = np.broadcast_to(np.asarray(inputs['advantage_per_sequence'])[:, None], (4, 5))
    arrays = dict(advantage=advantage, logp=inputs['logp'], old=inputs[old],
                  ref=inputs.get('ref_logp', inputs[old]), correct=inputs.get('correct', [0.0] * 4))
    x = {k: f(v)[:, None] for k, v in arrays.items()}
    x['mask'] = np.asarray(inputs['mask'], bool)[:, None]
    numbers = dict(low=0.2, high=0.2) if numbers is None else numbers
    value, grad, metrics = policy(x, {k: f(v) for k, v in numbers.items()}, surrogate=surrogate,
                                  slots=tuple(slots.items()))
    return value, np.asarray(grad)[:, 0], metrics

  def check(self, got, expected, tol):
    np.testing.assert_allclose(got[0], expected['loss'], tol, tol)
    np.testing.assert_allclose(got[1], expected['grad_logp'], tol, tol)

  @golden.both_types
  def test_clip(self, f, tol):
    case = GOLDEN['ppo_clip_losses']
    for name, weights, numbers in (
        ('grpo_seqmean_eps0p2', aggregate.sequence, dict(high=0.2)),
        ('dapo_tokenmean_0p2_0p28', aggregate.token, dict(high=0.28)),
        ('drgrpo_const10_eps0p2', CONSTANT, dict(high=0.2)),
        ('dapo_tokenmean_0p2_0p28_dualclip3', aggregate.token, dict(high=0.28, dual=3.0))):
      got = self.policy(f, case['inputs'], dict(low=0.2) | numbers, aggregate=weights)
      self.check(got, case['expected'][name], tol)
    case = GOLDEN['two_sided_clip_delta']
    got = self.policy(f, case['inputs'], dict(low=0.2, high=0.2, dual=1.8),
                      aggregate=aggregate.token)
    self.check(got, case['expected'], tol)

  @golden.both_types
  def test_kl_in_loss(self, f, tol):
    case = GOLDEN['grpo_loss_with_k3_beta0p04']
    for name, penalty in (('plain_k3', kl.k3),
                          ('ratio_weighted_k3_deepseek_v32', kl.importance_weighted_k3)):
      got = self.policy(f, case['inputs'], kl=penalty, kl_coef=0.04)
      self.check(got, case['expected'][name], tol)

  @golden.both_types
  def test_gspo(self, f, tol):
    case = GOLDEN['gspo']
    inputs, numbers = case['inputs'], dict(low=0.05, high=0.08)
    got = self.policy(f, inputs, numbers, ratio=ratios.sequence)
    self.check(got, case['expected']['gspo'], tol)
    got = self.policy(f, inputs, numbers, ratio=ratios.gspo_token,
                      advantage=inputs['token_advantage_for_gspo_token'])
    self.check(got, case['expected']['gspo_token'], tol)
    mask = np.asarray(inputs['mask'], bool)[:, None]
    got = jax.jit(ratios.sequence)(f(inputs['logp'])[:, None], f(inputs['old_logp'])[:, None],
                                   mask, mask)
    got = np.exp(np.asarray(got)[:, 0, 0])
    np.testing.assert_allclose(got, case['expected']['sequence_ratio'], tol, tol)

  @golden.both_types
  def test_cispo(self, f, tol):
    case = GOLDEN['cispo']
    for name, low, high in (('two_sided_clip_0p8_1p28', 0.2, 0.28),
                            ('upper_only_cap_1p28', 1.0, 0.28),
                            ('trap_trl_epsilon_high_0p28_is_absolute_cap', 1.0, 0.28 - 1.0)):
      got = self.policy(f, case['inputs'], dict(low=low, high=high), surrogate=surrogates.cispo,
                        aggregate=aggregate.token)
      self.check(got, case['expected'][name], tol)

  @golden.both_types
  def test_dis(self, f, tol):
    case = GOLDEN['dis']
    count = np.sum(case['inputs']['mask'])
    for name, low, high in (('math_0p3_5p0', 0.3, 5.0), ('coding_0p8_3p0', 0.8, 3.0),
                            ('tight_0p2_0p2', 0.2, 0.2)):
      expected = case['expected'][name]
      _, grad, metrics = self.policy(f, case['inputs'], dict(low=low, high=high),
                                     old='rollout_logp', surrogate=surrogates.dis,
                                     aggregate=aggregate.token)
      np.testing.assert_allclose(grad, expected['grad_logp_denominator_all_tokens'], tol, tol)
      dropped = metrics['ratio/mask_fraction']
      self.assertEqual(dropped.total, count - np.sum(expected['kept']))
      self.assertEqual(dropped.count, count)

  @golden.both_types
  def test_positive_nll(self, f, tol):
    case = GOLDEN['vapo_positive_nll']
    inputs = case['inputs'] | dict(old_logp=case['inputs']['logp'])
    got, _, _ = self.policy(f, inputs, advantage=np.zeros((4, 5)),
                            auxiliary=(partial(auxiliary.positive_nll, coef=inputs['mu']),))
    np.testing.assert_allclose(got, case['expected']['weighted'], tol, tol)

  @golden.both_types
  def test_aggregates(self, f, tol):
    case = GOLDEN['aggregation_modes']
    mask, x = np.asarray(case['inputs']['mask'], bool)[None], f(case['inputs']['loss'])[None]
    modes = {'token-mean': aggregate.token, 'token-sum': aggregate.token_sum,
             'seq-mean-token-mean': aggregate.sequence,
             'seq-mean-token-sum': aggregate.sequence_sum, 'seq-mean-token-sum-norm': CONSTANT}
    run = jax.jit(lambda mask, x: {k: aggregate.apply(w(mask), x) for k, w in modes.items()})
    for name, got in run(mask, x).items():
      np.testing.assert_allclose(got, case['expected'][name], tol, tol)

  @golden.both_types
  def test_value_loss(self, f, tol):
    case = GOLDEN['value_loss_and_adaptive_kl']
    x = {k: golden.row(f(case['inputs'][k][0])) for k in ('values', 'old_values', 'returns')}

    @jax.jit
    def run(x, mask):
      loss = critic.value_loss(x['values'], x['old_values'], x['returns'], mask, clip=0.2)
      return aggregate.apply(aggregate.token(mask), loss)

    got = run(x, np.ones((1, 1, 3), bool))
    np.testing.assert_allclose(got, case['expected']['value_loss_token_mean'], tol, tol)

  @golden.both_types
  def test_overlong(self, f, tol):
    case = GOLDEN['dapo_overlong_penalty']
    lengths = np.asarray(case['inputs']['lengths'])
    mask = (np.arange(20500) < lengths[:, None])[:, None]   # the longest row is cut; it stays at -1
    run = jax.jit(lambda x, mask: jnp.sum(
        rewards.overlong(x, x, None, mask, max_length=20480, cache=4096), axis=(1, 2)))
    got = run(np.zeros(mask.shape, f(0.0).dtype), mask)
    np.testing.assert_allclose(got, case['expected']['penalty'], tol, tol)


class KlTest(parameterized.TestCase):

  @golden.both_types
  def test_values_and_gradients_by_enumeration(self, f, tol):
    """Expected gradient over the three actions of a softmax, samples held fixed."""
    case = GOLDEN['kl_estimators']
    expected = case['expected']

    @jax.jit
    def run(logits, ref_logits, old_logits):
      reference, now = jax.nn.log_softmax(ref_logits), jax.nn.log_softmax(logits)
      old = jax.nn.log_softmax(old_logits)

      @partial(jax.value_and_grad, argnums=1)
      def mean(penalty, z, anchor):
        logp = jax.nn.log_softmax(z)
        return jnp.sum(jnp.exp(anchor) * penalty(logp, reference, logp - anchor))

      out = {}
      for name, penalty in (('k1', kl.k1), ('k2', kl.k2), ('k3', kl.k3)):
        out[name] = penalty(now, reference, now)
        out[f'E_{name}'], out[f'E_grad_{name}'] = mean(penalty, logits, now)
      weighted = [mean(kl.importance_weighted_k3, logits, anchor)[1] for anchor in (now, old)]
      return out, weighted

    out, (on_policy, off_policy) = run(*(f(case['inputs'][k]) for k in
                                         ('logits', 'ref_logits', 'old_logits')))
    for name, got in out.items():
      np.testing.assert_allclose(got, expected[name], tol, tol)
    np.testing.assert_allclose(on_policy, expected['grad_reverse_KL'], tol, tol)
    np.testing.assert_allclose(off_policy, expected['grad_reverse_KL'], tol, tol)
    np.testing.assert_allclose(expected['E_grad_k3'], expected['grad_forward_KL'], 1e-12, 1e-12)

  @golden.both_types
  def test_two_tokens(self, f, tol):
    """All four paths of a binary tree: k1 in the reward has the full gradient, k2 has not."""
    case = GOLDEN['kl_two_token']
    inputs, expected = case['inputs'], case['expected']
    z = f([inputs['logit_root'], inputs['logit_after_0'], inputs['logit_after_1']])
    paths = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    nodes = np.stack([np.zeros(4, int), 1 + paths[:, 0]], axis=1)

    def logps(z):
      signs = 2.0 * paths - 1.0
      return jax.nn.log_sigmoid(z[nodes] * signs)[None]      # [1, 4 paths, 2 tokens]

    @jax.jit
    def gradients(z, ref):
      reference, old = logps(ref), logps(z)
      mask, zero = jnp.ones(old.shape, bool), jnp.zeros_like(old)
      prob = jnp.exp(jnp.sum(old, axis=2, keepdims=True))
      out = dict(k2_token=jax.grad(lambda z: jnp.sum(prob * kl.k2(logps(z), reference, old)))(z))
      charged = rewards.kl_in_reward(zero, old, reference, mask, coef=1.0)
      for discount, name in ((1.0, 'k1_reward_to_go'), (0.0, 'k1_same_token_only')):
        x = returns.reward_to_go(charged, mask, rollouts.context(mask), discount=discount)
        loss = lambda z, x=x: jnp.sum(prob * surrogates.reinforce(zero, logps(z), x, mask))
        out[name] = jax.grad(loss)(z)
      return out

    for name, grad in gradients(z, f(inputs['ref'])).items():
      np.testing.assert_allclose(grad, expected[name], tol, tol)


if __name__ == '__main__':
  absltest.main()
