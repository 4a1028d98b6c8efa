"""Worked examples of baselines and memories (golden_single.json), in both float types."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo.objective import advantages
from grpo.objective import baselines
from grpo.objective import filters
from grpo.objective import kl
from grpo.objective import memory
from grpo.objective import weigh
from grpo.objective.context import Context
from tests import golden
from tests import golden_single_test
from tests import rollouts

partial = functools.partial
GOLDEN = golden_single_test.GOLDEN


def context(lengths, parts=None):
  """Context of whole trajectories, [P,G,1]."""
  lengths = jnp.asarray(lengths)
  return Context(
      tokens_PGK=lengths[..., None], lengths_PG=lengths, truncated_PG=lengths < 0,
      state_id_PGK=lengths[..., None], values_PGK=None, bootstrap_PG=None, baseline=None,
      parts_PGN=parts)


class AdvantageTest(parameterized.TestCase):

  @golden.both_types
  def test_opo_and_maxrl(self, f, tol):
    case = GOLDEN['rloo_opo_maxrl']
    inputs = case['inputs']
    x = f(np.reshape(inputs['rewards'], (2, 4, 1)))
    binary = f(np.reshape(inputs['binary_rewards_for_maxrl'], (3, 4, 1)))
    lengths = np.reshape(inputs['lengths'], (2, 4))

    @jax.jit
    def run(x, binary, lengths):
      return (baselines.length_weighted(x, jnp.ones(x.shape, bool), context(lengths)),
              baselines.mean_over_mean(binary, jnp.ones(binary.shape, bool), None))

    opo, maxrl = run(x, binary, lengths)
    np.testing.assert_allclose(
        np.ravel(opo), case['expected']['opo_length_weighted_baseline'], tol, tol)
    np.testing.assert_allclose(np.ravel(maxrl), case['expected']['maxrl'], tol, tol)

  @golden.both_types
  def test_bnpo_and_gpg(self, f, tol):
    for name, function, key in (
        ('bnpo', baselines.beta_density, 'advantage'),
        ('gpg', baselines.informative_center, 'official_divide_by_fraction_informative_groups')):
      case = GOLDEN[name]
      x = f(np.reshape(case['inputs']['rewards'], (-1, 4, 1)))
      got = jax.jit(partial(function, context=None))(x, np.ones(x.shape, bool))
      np.testing.assert_allclose(np.ravel(got), case['expected'][key], tol, tol)

  @golden.both_types
  def test_reinforce_plus_plus_baseline(self, f, tol):
    case = GOLDEN['reinforce_plus_plus']
    lengths = np.reshape(case['inputs']['lengths'], (2, 2))
    x = f(np.reshape(case['inputs']['rewards'], (2, 2, 1)))
    got = jax.jit(lambda x, n: baselines.center_whiten(x, jnp.ones(x.shape, bool), context(n)))(
        x, lengths)
    want = np.asarray(case['expected']['rfpp_baseline'])[:, 0]
    # The source divides sums by count + 1e-8, hence not 1e-10.
    np.testing.assert_allclose(np.ravel(got), want, max(tol, 1e-8), max(tol, 1e-8))

  @golden.both_types
  def test_gdpo(self, f, tol):
    case = GOLDEN['gdpo']
    parts = f(np.reshape(case['inputs']['rewards'], (2, 4, 2)))

    @jax.jit
    def run(parts):
      total = (parts * jnp.asarray(case['inputs']['weights'], parts.dtype)[None, None])
      total = jnp.sum(total, axis=2, keepdims=True)
      valid = jnp.ones(total.shape, bool)
      args = valid, context(jnp.ones((2, 4), jnp.int32), parts)
      return dict(
          gdpo=baselines.decoupled_zscore(total, *args, weights=tuple(case['inputs']['weights'])),
          grpo_on_weighted_sum=advantages.group_zscore(total, *args, eps=1e-4))

    for name, got in run(parts).items():
      np.testing.assert_allclose(np.ravel(got), case['expected'][name], tol, tol)


class MemoryTest(parameterized.TestCase):

  def test_adaptive_kl(self):
    case = GOLDEN['value_loss_and_adaptive_kl']
    inputs = case['inputs']
    slot = memory.adaptive_kl(target=inputs['kl_target'], horizon=inputs['horizon'])
    shape = (inputs['n_steps'], 1, 2)
    seen = memory.Seen(
        rollout=rollouts.rollout(np.ones(shape, bool), np.zeros(shape)),
        old_logp_PGT=np.full(shape, inputs['kl_observed'] / 2), ref_logp_PGT=np.zeros(shape),
        past_logp_PGT={})
    scale = slot.remember(slot.initial(seen.rollout), seen)
    changed, baseline = slot.recall(scale, rollouts.make(kl=kl.k3, kl_coef=inputs['kl_init']),
                                    seen.rollout)
    np.testing.assert_allclose(changed.kl_coef, case['expected']['kl_coef_after'], 1e-6)
    self.assertIsNone(baseline)

  @golden.both_types
  def test_tracker(self, f, tol):
    """One prompt, met three times, after 8 offline samples."""
    case = GOLDEN['spo_single_stream']
    inputs = case['inputs']
    slot = memory.prompt_tracker(prompt=1, slots=4, least=inputs['rho_min'], most=inputs['rho_max'],
                                 half=inputs['D_half'])
    one = np.ones((1, 1, 1), bool)
    solved, count = sum(inputs['offline_binary']), len(inputs['offline_binary'])
    number = 1 / (1 - inputs['rho_min']) / (count + 1)
    kept = slot.initial(rollouts.rollout(one, one * f(0.0)))
    # The paper's start, and an episode of one token to measure the drift on.
    kept |= dict(solved=jnp.full(4, f(number * (solved + 0.5))), mask=jnp.ones((4, 1, 1), bool),
                 failed=jnp.full(4, f(number * (count - solved + 0.5))))
    for reward, drift, want in zip(inputs['online_rewards'], inputs['KL_D'],
                                   case['expected']['steps'], strict=True):
      x = rollouts.rollout(one, one * f(reward), success=one[..., 0] * f(reward))
      _, baseline = slot.recall(kept, None, x)
      np.testing.assert_allclose(baseline[0, 0], want['p_before'], tol, tol)
      np.testing.assert_allclose(reward - baseline[0, 0], want['advantage_raw'], tol, tol)
      facts = filters.Facts(
          reward_PG=baseline, shaped_PG=baseline, success_PG=baseline, lengths_PG=baseline,
          truncated_PG=baseline, version_PG=baseline, now=jnp.asarray(0), baseline_PG=baseline)
      # The weight is over its mean, here itself; two prompts give the ratio.
      both = jax.tree.map(lambda y: jnp.concatenate([y, 0 * y + 0.5]) if y.ndim else y, facts)
      weight = weigh.uncertainty(both, None, np.ones((2, 1, 1), bool), by='baseline')[:, 0, 0]
      p = want['p_before']
      np.testing.assert_allclose(weight[0] / weight[1], (p * (1 - p))**0.5 / 0.55 + 0.05 / 0.55,
                                 tol, tol)
      seen = memory.Seen(rollout=x, old_logp_PGT=None, ref_logp_PGT=None, past_logp_PGT={})
      kept = slot.remember(kept, seen, kept['logp'][:1, 0][:, None] + f(drift))
      at = int(np.argmax(np.asarray(kept['solved']) != f(number * (solved + 0.5))))
      np.testing.assert_allclose(kept['solved'][at], want['alpha'], tol, tol)
      np.testing.assert_allclose(kept['failed'][at], want['beta'], tol, tol)


if __name__ == '__main__':
  absltest.main()
