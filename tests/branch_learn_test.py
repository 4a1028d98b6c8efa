"""Training with branched rollouts and with filters over prompts: on one device and on four."""

import importlib

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from configs import base
from grpo.learn import loop


def run(name, **overrides):
  """A variant on a tabular policy, three turns of which the first decides."""
  config = importlib.import_module(f'configs.{name}').get_config('smoke,horizon')
  config.model = base.slot('tabular')
  config.clone.steps = 0
  config.task.horizon, config.task.actions, config.window.turns = 3, 2, 3
  config.task.decisive = 1
  config.steps, config.log_every, config.checkpoint.every = 16, 8, 16
  config.train.learning_rate = 0.2
  config.evaluate.prompts = 64
  with config.ignore_type():
    config.update_from_flattened_dict(overrides)
  return loop.run(config, seeds=[0])


class BranchLearnTest(parameterized.TestCase):

  @parameterized.parameters('vine_ppo', 'starpo_s')
  def test_devices_change_nothing_and_it_learns(self, name):
    one, four = run(name), run(name, **{'mesh.data': 4})
    np.testing.assert_allclose(one['success'], four['success'], atol=1e-5)
    self.assertEqual(one['sampled_tokens'], four['sampled_tokens'])
    self.assertGreater(one['success'][-1, 0], 0.3)  # chance is 1/16

  def test_continuations_are_counted(self):
    # 8 prompts of 4 samples, 3 turns; with 1 continuation from each turn 4 times as many rows.
    plain, vine = (run(name, steps=1, log_every=1, **{'checkpoint.every': 1})
                   for name in ('grpo', 'vine_ppo'))
    self.assertEqual(np.sum(plain['sampled_tokens']), 8 * 4 * 3)
    self.assertEqual(np.sum(vine['sampled_tokens']), 8 * 4 * 3 * 4)
    self.assertEqual(np.sum(vine['trained_tokens']), np.sum(plain['trained_tokens']))


if __name__ == '__main__':
  absltest.main()
