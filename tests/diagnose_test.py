"""The falsification set: every fault is named, and what is right passes."""

import dataclasses

from absl.testing import absltest
import numpy as np
import pytest

from experiments.broken import faults
from grpo.study import diagnose


class DiagnoseTest(absltest.TestCase):

  def test_each_fault_is_called_by_its_name_alone(self):
    seen = set()
    for name, fault, case in faults.broken():
      self.assertEqual(list(diagnose.diagnose(case)), [fault], name)
      seen.add(fault)
    self.assertEqual(seen, set(diagnose.NAMES) - {'wrong log-probs'})

  def test_right_ones_pass(self):
    for name, short in (('grpo', True), ('ppo', False)):
      case = faults.case(faults.batch(short=short), faults.right(name), grouped=name == 'grpo')
      self.assertEqual(diagnose.diagnose(case), {}, name)

  def test_log_probs_of_another_temperature(self):
    layout, rollout, logp = faults.batch()
    case = faults.case((layout, rollout, logp * 1.3), faults.right('grpo'))
    self.assertEqual(list(diagnose.diagnose(case)), ['wrong log-probs'])

  def test_stretching_keeps_what_is_trained(self):
    case = faults.case(faults.batch(), faults.right('grpo'))
    longer = diagnose.stretched(case)
    mask = np.asarray(longer.rollout.mask)
    self.assertEqual(mask.shape[-1], longer.layout.length)
    np.testing.assert_array_equal(np.asarray(longer.rollout.tokens)[mask],
                                  np.asarray(case.rollout.tokens)[np.asarray(case.rollout.mask)])
    slots = np.zeros(longer.layout.length, bool)
    slots[list(longer.layout.action_slots)] = True
    self.assertFalse((mask & ~slots).any())
    self.assertEqual(dataclasses.replace(longer.layout, observation=2), case.layout)


@pytest.mark.slow
class AllConfigsTest(absltest.TestCase):

  def test_sound_ones_pass(self):
    for name, case in faults.sound():
      self.assertEqual(diagnose.diagnose(case), {}, name)


if __name__ == '__main__':
  absltest.main()
