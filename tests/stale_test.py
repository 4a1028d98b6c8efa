"""A ratio is counted once, and what corrects nothing does not train on data of another policy."""

import importlib

from absl.testing import absltest
from absl.testing import parameterized
import jax.numpy as jnp
import numpy as np

from grpo import build
from grpo import check
from grpo import stale
from grpo.objective import corrections

TIS, ICEPOP, M2PO = dict(name='tis'), dict(name='icepop'), dict(name='m2po')
REJECT = dict(name='reject', high=0.05)
OLD, LAG = {'method.old': 'recomputed'}, {'sample.lag': 4}
NONE = {'method.ratio': dict(name='none')}


def corrected(**slots):
  return OLD | {'method.correction': slots}


def plain(name, overrides, spec='smoke'):
  return build.plain(importlib.import_module(f'configs.{name}').get_config(spec), overrides)


class StaleTest(parameterized.TestCase):

  @parameterized.parameters(
      ('grpo_tis', corrected(a=TIS, b=ICEPOP), r'a \(tis\) and b \(icepop\) each multiply'),
      ('grpo_tis', corrected(a=TIS, b=TIS), 'would count twice: keep one'),
      ('grpo_tis', corrected(a=TIS, b=TIS | {'level': 'sequence'}), 'count twice'),
      ('icepop', corrected(a=ICEPOP, b=ICEPOP | {'level': 'geometric'}, c=REJECT), 'count twice'),
      ('grpo', NONE | LAG, 'sample.lag=4 .* method.ratio=none does not correct for it: use'),
      ('sao', NONE | LAG, 'method.ratio=none does not correct'),
      ('dapo', NONE | LAG, 'method.ratio=none does not correct'),
      ('flash_reinforce', NONE | LAG, 'method.ratio=none does not correct'),
      ('grpo', NONE | LAG | corrected(m=M2PO), r'nor does method.correction \(m2po\), which only'),
      ('grpo', NONE | {'train.minibatches': 4}, 'method.ratio=none has no ratio: .* got 4 and 1'),
      ('grpo', NONE | {'train.minibatches': 1, 'train.epochs': 3}, 'must be 1, got 1 and 3'),
      ('rloo', LAG, 'method.surrogate=reinforce does not correct for it: use'),
      ('rloo', LAG | corrected(m=M2PO), r'nor does method.correction \(m2po\), which only masks'),
      ('rloo', LAG | corrected(m=REJECT, n=M2PO), r'nor does method.correction \(reject, m2po\)'),
      ('rloo', {'train.epochs': 2}, 'method.surrogate=reinforce has no ratio'),
      ('grpo', LAG | OLD, 'method.old=recomputed hides staleness'),
  )
  def test_refused(self, name, overrides, message):
    with self.assertRaisesRegex(ValueError, message):
      check.check(plain(name, overrides))

  @parameterized.parameters(
      ('grpo_tis', LAG | corrected(a=TIS, b=M2PO, c=REJECT)),
      ('icepop', LAG | corrected(a=ICEPOP, b=REJECT)),
      ('grpo', LAG | corrected(a=M2PO, b=REJECT)),
      ('grpo', NONE | {'train.minibatches': 1}),
      ('grpo', NONE | LAG | {'train.minibatches': 1} | corrected(a=TIS)),
      ('rloo', LAG | corrected(a=TIS, b=REJECT)),
      ('m2po', LAG), ('grpo_reject', LAG), ('grpo_opsm', LAG),
  )
  def test_accepted(self, name, overrides):
    check.check(plain(name, overrides))

  def test_every_correction_weighs_or_masks(self):
    """The lists of grpo/stale.py, by what the functions do to a ratio of 1.5."""
    self.assertCountEqual(stale.WEIGHTS + stale.MASKS, corrections.__all__)
    old, mask = jnp.log(jnp.full((1, 1, 2), 0.6)), jnp.ones((1, 1, 2), bool)
    sampler = jnp.log(jnp.full((1, 1, 2), 0.4))
    for name in corrections.__all__:
      arguments = dict(high=1.0) if name == 'reject' else {}
      weight, _ = getattr(corrections, name)(old, sampler, mask, **arguments)
      want = 1.5 if name in stale.WEIGHTS else 1.0
      np.testing.assert_allclose(weight[0, 0, 0], want, 1e-5, err_msg=name)


if __name__ == '__main__':
  absltest.main()
