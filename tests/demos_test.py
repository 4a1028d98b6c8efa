"""The expert's episodes sit in the layout exactly as sampled ones do."""

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from grpo import keys
from grpo.models import tabular
from grpo.rollout import demos
from grpo.rollout import sampler
from tests import episodes as runs
from tests import toy


def demonstrate(task, layout, noise=0.0, samples=2, step=0, **knobs):
  return demos.demonstrate(task, layout, task.knobs | knobs, keys.root(0), step=step, prompts=3,
                           samples=samples, noise=noise)


class DemosTest(parameterized.TestCase):

  @parameterized.parameters((5, 1, 0), (1, 3, 2))
  def test_equals_the_sampler_under_a_policy_that_imitates(self, turns, segments, carry):
    task = toy.chatter(turns=7)  # its expert always writes 1 1 1
    layout = toy.layout(task, turns=turns, segments=segments, carry=carry)
    policy = tabular.policy(toy.VOCAB, 2)
    params = {'table': jnp.zeros((2, toy.VOCAB, toy.VOCAB)).at[:, :, 1].set(1e4)}

    @jax.jit
    def both(key, knobs, forget):
      sizes = dict(step=4, prompts=3, samples=2, forget=forget)
      return (sampler.sample(policy, params, task, layout, knobs, key, temperature=1.0, **sizes),
              demos.demonstrate(task, layout, knobs, key, noise=0.0, **sizes))

    for end_share, forget in ((0.0, 0), (0.3, 0), (0.0, 1)):
      sampled, shown = both(keys.root(0), dict(end_share=end_share), forget)
      for name in ('tokens', 'valid', 'mask', 'rewards', 'turn', 'state_id', 'success',
                   'terminated', 'truncated', 'prompt_id', 'sample_id', 'logp', 'version'):
        one, other = getattr(sampled, name), getattr(shown, name)
        self.assertEqual(one.dtype, other.dtype, name)
        np.testing.assert_array_equal(one, other, err_msg=name)
      self.assertEqual(bool(jnp.any(shown.terminated)), end_share > 0)

  def test_random_turns_are_real_but_never_learned(self):
    task = runs.build('horizon', max_turns=16)
    layout = toy.layout(task, turns=16)
    knobs = dict(decisive=4, visibility=1.0)
    run = jax.jit(lambda noise: demonstrate(task, layout, noise, samples=40, **knobs))
    clean, half, noise = (run(share) for share in (0.0, 0.5, 1.0))
    self.assertEqual(float(clean.success.mean()), 1)
    self.assertEqual(float(noise.mask.sum()), 0)
    np.testing.assert_array_equal(clean.valid, half.valid)
    self.assertAlmostEqual(float(half.mask.sum() / clean.mask.sum()), 0.5, delta=0.05)
    for x in (half.rewards, half.state_id, half.turn + 1):
      self.assertEqual(float(jnp.abs(jnp.where(half.mask, 0, x)).sum()), 0)
    self.assertLess(float(half.success.mean()), 0.5)

  def test_instances_and_bad_layout(self):
    task = runs.build('arithmetic')
    layout = toy.layout(task, turns=1)
    shown = jax.jit(lambda: demonstrate(task, layout, samples=2))()
    tokens = np.asarray(shown.tokens[:, :, 0])
    np.testing.assert_array_equal(tokens[:, 0], tokens[:, 1])
    self.assertLen(np.unique(tokens[:, 0], axis=0), 3)
    with self.assertRaisesRegex(ValueError, 'layout.action=3 but the task has action_len=1'):
      demonstrate(runs.build('horizon', max_turns=16), toy.layout(toy.chatter(prompt=2), turns=1))


if __name__ == '__main__':
  absltest.main()
