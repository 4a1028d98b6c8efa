"""Worked examples of methods without critic or tree (golden_single.json), in both float types."""

import dataclasses
import functools
import json
import pathlib

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo.objective import aggregate
from grpo.objective import baselines
from grpo.objective import corrections
from grpo.objective import gates
from grpo.objective import method
from grpo.objective import quadratic
from grpo.objective import ratios
from grpo.objective import surrogates
from grpo.objective import trust
from grpo.objective import weigh
from tests import golden
from tests import rollouts

partial = functools.partial
GOLDEN = golden.GOLDEN | json.loads(
    (pathlib.Path(__file__).parent / 'golden_single.json').read_text())


@partial(jax.jit, static_argnames=('slots',))
def policy(x, *, slots):
  """Loss and gradient of a method with given advantages and corrections."""
  slots = rollouts.make(**dict(slots))
  weight, keep = corrections.combine(slots.correction, x['old'], x['sampler'], x['mask'])
  credit = method.Credit(
      advantages_PGT=x['advantage'], mask_PGT=keep,
      turn_PGT=jnp.zeros(x['mask'].shape, jnp.int32), success_PG=x['advantage'][..., 0],
      targets_PGT=None, values_PGT=None, value_mask_PGT=None, correction_PGT=weight,
      sampler_logp_PGT=x['sampler'] if slots.gate else None)
  weights = method.policy_weights(slots, credit)
  loss = lambda logp: method.policy_loss(slots, logp, None, x['old'], None, credit, weights)
  (value, metrics), grad = jax.value_and_grad(loss, has_aux=True)(x['logp'])
  return value, grad, metrics


def rows(x):
  """Rows of the examples as prompts with one sample, [4,1,T]."""
  return np.asarray(x)[:, None]


class SurrogateTest(parameterized.TestCase):

  def policy(self, f, inputs, old='old_logp', sampler=None, advantage=None, **slots):
    """Loss, gradient and metrics: four prompts with one row each."""
    if advantage is None:
      advantage = np.broadcast_to(np.asarray(inputs['advantage_per_sequence'])[:, None], (4, 5))
    x = dict(advantage=advantage, logp=inputs['logp'], old=inputs[old],
             sampler=inputs[sampler or old])
    x = {k: rows(f(v)) for k, v in x.items()} | dict(mask=rows(np.asarray(inputs['mask'], bool)))
    value, grad, metrics = policy(x, slots=tuple(slots.items()))
    return value, np.asarray(grad)[:, 0], metrics

  def check(self, got, expected, tol, loss='loss'):
    np.testing.assert_allclose(got[0], expected[loss], tol, tol)
    np.testing.assert_allclose(got[1], expected['grad_logp'], tol, tol)

  @golden.both_types
  def test_gmpo(self, f, tol):
    case = GOLDEN['gmpo']
    got = self.policy(f, case['inputs'], surrogate=partial(trust.gmpo, low=0.4, high=0.4))
    self.check(got, case['expected'], tol)

  @golden.both_types
  def test_sapo(self, f, tol):
    case = GOLDEN['sapo']
    got = self.policy(f, case['inputs'], surrogate=trust.sapo)
    self.check(got, case['expected'], tol)

  @golden.both_types
  def test_dppo(self, f, tol):
    case = GOLDEN['dppo']
    for name, surrogate in (('tv', partial(trust.dppo_tv, low=0.15, high=0.15)),
                            ('kl', partial(trust.dppo_kl, bound=0.05))):
      expected = case['expected'][name]
      got = self.policy(f, case['inputs'], surrogate=surrogate, aggregate=aggregate.token)
      self.check(got, expected, tol)
      mask = np.asarray(case['inputs']['mask'], bool)
      np.testing.assert_array_equal(got[1] != 0, mask & (np.asarray(expected['kept']) > 0))
    old, logp = (f(case['inputs'][k]) for k in ('old_logp', 'logp'))
    got = np.where(mask, jax.jit(trust.binary_kl)(old, logp), 0.0)
    # The source adds 1e-8 inside a logarithm, hence not 1e-10.
    np.testing.assert_allclose(got, case['expected']['kl']['binary_kl'], 1e-5, max(tol, 1e-7))

  @golden.both_types
  def test_vespo(self, f, tol):
    case = GOLDEN['vespo']
    got = self.policy(f, case['inputs'], surrogate=trust.vespo, ratio=ratios.product,
                      aggregate=aggregate.token)
    self.check(got, case['expected'], tol)

  @golden.both_types
  def test_mirror_descent(self, f, tol):
    case = GOLDEN['mirror_descent']
    inputs, expected = case['inputs'], case['expected']
    centred = np.asarray(inputs['rewards']) - np.mean(inputs['rewards'])
    got = self.policy(f, inputs, advantage=np.broadcast_to(centred[:, None], (4, 5)),
                      surrogate=partial(quadratic.squared, tau=0.5), ratio=ratios.product)
    np.testing.assert_allclose(got[0], expected['k2_loss'], tol, tol)
    np.testing.assert_allclose(got[1], expected['k2_grad_logp'], tol, tol)
    got = self.policy(f, inputs, surrogate=partial(quadratic.dro, beta=0.1),
                      aggregate=aggregate.token)
    np.testing.assert_allclose(got[0], expected['dro_token_loss'], tol, tol)
    x = f(inputs['rewards'])[None, :, None]
    got = jax.jit(partial(baselines.log_mean_exp, tau=0.25, context=None))(
        x, np.ones(x.shape, bool))
    np.testing.assert_allclose(
        got[0, :, 0], expected['pmd_part_leave_one_out_logmeanexp_advantage'], tol, tol)

  @golden.both_types
  def test_a_star_po(self, f, tol):
    """The optimal value and the regression on it."""
    case = GOLDEN['a_star_po']
    inputs, expected = case['inputs'], case['expected']
    one = f([[[1.0]]])
    context = dataclasses.replace(rollouts.context(one > 0),
                                  guide_PN=f(inputs['reference_policy_rewards'])[None])
    got = baselines.minus_optimal_value(0 * one, one > 0, context, beta=inputs['beta1'])
    value = -got[0, 0, 0]
    np.testing.assert_allclose(value, expected['V_star'], tol, tol)
    got = quadratic.squared(one * inputs['sequence_log_ratio_to_ref'], one,
                            (inputs['online_reward'] - value) * one, one > 0, tau=inputs['beta2'])
    np.testing.assert_allclose(got[0, 0, 0], expected['loss'], tol, tol)

  @golden.both_types
  def test_decoupled(self, f, tol):
    case = GOLDEN['decoupled_ppo']
    for name, correction in (
        ('clamp', partial(corrections.tis, cap=2.0)),
        ('mask_0p5_2_original_denominator', partial(corrections.icepop, low=0.5, high=2.0))):
      got = self.policy(f, case['inputs'], old='prox_logp', sampler='behave_logp',
                        correction=(correction,), aggregate=aggregate.token)
      self.check(got, case['expected'][name], tol)

  @golden.both_types
  def test_off_policy_sequence(self, f, tol):
    case = GOLDEN['off_policy_sequence_mask']
    run = partial(self.policy, f, case['inputs'], aggregate=aggregate.token,
                  surrogate=partial(surrogates.ppo_clip, low=0.2, high=0.28))
    got = run(gate=(partial(gates.off_policy_sequence, delta=0.05),))
    self.check(got, case['expected'], tol, 'loss_original_denominator')
    self.assertEqual(got[2]['gate/dropped'].total, 0.0)
    # Row 3 has A < 0 and a mean of 0.0125: a smaller delta drops it and keeps the divisor.
    less = run(gate=(partial(gates.off_policy_sequence, delta=0.01),))
    np.testing.assert_array_equal(less[1][3], 0.0)
    np.testing.assert_allclose(less[1][:3], got[1][:3], tol, tol)
    self.assertEqual(less[2]['gate/dropped'].total, 4.0)


class CorrectionTest(parameterized.TestCase):

  @golden.both_types
  def test_weights_and_rejection(self, f, tol):
    case = GOLDEN['rollout_correction']
    x = rows(f(case['inputs']['log_train_old_minus_log_rollout']))
    mask = rows(np.asarray(case['inputs']['mask'], bool))
    expected = case['expected']
    sequence = {'sequence_product': dict(level='sequence', cap=100.0),
                'sequence_product_cap2': dict(level='sequence', cap=2.0),
                'sequence_geometric_mean': dict(level='geometric', cap=100.0)}
    token = {'tis_cap2': partial(corrections.tis, cap=2.0),
             'tis_cap2_batch_normalised': partial(corrections.tis, cap=2.0, normalise='batch'),
             'icepop_0p5_2': partial(corrections.icepop, low=0.5, high=2.0)}
    reject = {'rs_token_k1_bounds_0p5_2_on_inverse_ratio': dict(kind='k1', level='token', high=2.0),
              'rs_seq_mean_k3_le_0p15': dict(kind='k3', level='mean', high=0.15)}

    @jax.jit
    def run(x, mask):
      zero = jnp.zeros_like(x)
      out = {k: call(x, zero, mask)[0] for k, call in token.items()}
      out |= {k: corrections.tis(x, zero, mask, **v)[0] for k, v in sequence.items()}
      for k, v in reject.items():
        weight, keep = corrections.reject(x, zero, mask, **v)
        out[k] = weight * keep
      return out

    for name, got in run(x, mask).items():
      got = np.asarray(got)[:, 0]
      got = got[:, 0] if name in sequence else got
      np.testing.assert_allclose(got, expected[name], tol, tol, err_msg=name)

  @golden.both_types
  def test_m2po(self, f, tol):
    case = GOLDEN['m2po']
    x, mask = rows(f(case['inputs']['log_ratio'])), rows(np.asarray(case['inputs']['mask'], bool))
    got, keep = jax.jit(partial(corrections.m2po, tau=0.04))(x, np.zeros_like(x), mask)
    np.testing.assert_array_equal(got[:, 0], case['expected']['kept_mask'])
    self.assertTrue(np.all(keep))
    after = np.sum(np.square(x) * got) / np.sum(got)
    np.testing.assert_allclose(after, case['expected']['second_moment_after'], tol, tol)

  @golden.both_types
  def test_covariance(self, f, tol):
    case = GOLDEN['covariance_terms']
    inputs = case['inputs']
    advantage = f(np.broadcast_to(np.asarray(inputs['advantage_per_sequence'])[:, None], (4, 5)))
    mask = rows(np.asarray(inputs['mask'], bool))
    got = jax.jit(trust.covariance)(rows(f(inputs['logp'])), rows(advantage), mask)
    np.testing.assert_allclose(np.asarray(got)[:, 0], case['expected']['cov'], tol, tol)

  def test_prefix_counts(self):
    case = GOLDEN['lambda_grpo_prefix_counts']
    tokens = np.full((1, 4, 4), -1)
    for i, row in enumerate(case['inputs']['token_ids']):
      tokens[0, i, :len(row)] = row
    got = np.asarray(jax.jit(partial(weigh.prefix_share, None))(tokens, tokens >= 0))
    for i, row in enumerate(case['expected']['loss_weight']):
      np.testing.assert_allclose(got[0, i, :len(row)], row, 1e-7)
      np.testing.assert_array_equal(got[0, i, len(row):], 0.0)


if __name__ == '__main__':
  absltest.main()
