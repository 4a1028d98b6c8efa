"""The audit against what must hold: exact values, linearity, unbiased estimators, the catalogue."""

import functools

from absl.testing import absltest
from absl.testing import parameterized
import jax
import jax.numpy as jnp
import numpy as np

from configs import base
from grpo import build
from grpo import keys
from grpo import types
from grpo.objective import advantages
from grpo.objective import agents
from grpo.objective import anchors
from grpo.objective import baselines
from grpo.objective import gae
from grpo.objective import returns
from grpo.objective import trees
from grpo.rollout import branch
from grpo.rollout import sampler
from grpo.study import audit
from grpo.study import audit_report
from grpo.study import behaviour
from grpo.study import catalogue
from grpo.study import judge
from grpo.study import oracle

ACTIONS, TURNS = 2, 3
ONLY = ('raw outcome', 'group mean (Dr. GRPO)', 'leave one out (RLOO)', 'group z-score (GRPO)',
        'exact critic, lambda 0', 'exact critic, lambda 1', 'noisy critic, lambda 1')


@functools.cache
def actor():
  """A table in a task of three turns, two of which decide; failures show half of the time."""
  config = base.get_config('smoke')
  config.task.horizon, config.task.actions, config.task.visibility = TURNS, ACTIONS, 0.5
  config.task.undo = 0.5
  config.model = base.slot('tabular', scale=0.5)
  return build.actor(config)


@functools.cache
def params():
  table = actor().policy.init(keys.root(0))['table']
  for cue in range(ACTIONS):
    for kind in (1, 2):  # routine cue, decisive cue
      table = table.at[:, 1 + kind * ACTIONS + cue, 1 + cue].add(3.0)
  return {'table': table}


@functools.cache
def evidence(seed=0):
  auditor = audit.Auditor(actor(), prompts=8, group=8, only=ONLY)
  return auditor.run(params(), batches=24, seed=seed)


def right_of(table):
  """P(right action) by turn and latent state of the policy that the table is, [H,N].

  Turn t is read after 2 + 3 t real tokens: status and cue, then an action and both again.
  """
  rows = []
  for turn in range(TURNS):
    decisive = turn * 2 % TURNS < 2
    first = 1 + ACTIONS * (2 if decisive else 1)
    cues = [jax.nn.softmax(table[2 + 3 * turn - 1, first + cue])[1 + cue] for cue in range(ACTIONS)]
    rows.append(jnp.repeat(jnp.stack(cues), 12))
  return jnp.stack(rows)


class AuditTest(parameterized.TestCase):

  def test_behaviour_is_that_of_the_table(self):
    auditor = audit.Auditor(actor(), prompts=8, group=8, only=ONLY[:1])
    rollout, right = auditor._sample(params(), keys.root(3), 0, actor().knobs)
    ids = np.asarray(types.stream(rollout.state_id)).reshape(-1)
    mean = behaviour.mean(np.asarray(right).reshape(-1), ids, actions=ACTIONS, max_turns=TURNS)
    seen = np.asarray(mean.visits) > 0
    want = np.asarray(right_of(params()['table']))
    np.testing.assert_allclose(np.asarray(mean.right)[seen], want[seen], atol=1e-5)
    self.assertLess(float(mean.spread), 1e-4)

  def test_truth_is_the_gradient_of_the_exact_success_rate(self):
    def success(table):
      exact = behaviour.solve(actor().knobs, right_of(table), actions=ACTIONS)
      return exact.start

    true = np.asarray(jax.jit(jax.grad(success))(params()['table'])).reshape(-1)
    found = evidence().gradient[:, 0].astype(np.float64)
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
    self.assertLess(np.abs(mean - true)[error > 0].max() / error.max(), 4)
    cosine = mean @ true / np.linalg.norm(mean) / np.linalg.norm(true)
    self.assertGreater(cosine, 0.97)

  def test_gradients_are_linear_in_credit(self):
    e = evidence()
    centred, others = (e.gradient[:, e.names.index(n)] for n in ONLY[1:3])
    np.testing.assert_allclose(others, centred * 8 / 7, atol=1e-6)

  def test_measures(self):
    rows = {r['estimator']: r for r in judge.rows(evidence(), turns=False)}
    truth, exact = rows[audit.TRUTH], rows['exact critic, lambda 0']
    self.assertEqual((truth['bias'], truth['sign'], truth['rank'], truth['leakage']), (0, 0, 1, 0))
    self.assertAlmostEqual(truth['scale'], 1, places=4)
    self.assertAlmostEqual(truth['cosine'], 1, places=4)
    # E[delta | state, action] is the advantage: unbiased, and so is every Monte-Carlo return.
    for name in ('exact critic, lambda 0', 'exact critic, lambda 1', 'raw outcome',
                 'leave one out (RLOO)', 'noisy critic, lambda 1'):
      self.assertLess(rows[name]['bias_low'], 0.1, name)
      self.assertAlmostEqual(rows[name]['scale'], 1, delta=0.15, msg=name)
    # A sample in its own mean shrinks by 7 / 8.
    self.assertAlmostEqual(rows['group mean (Dr. GRPO)']['scale']
                           / rows['leave one out (RLOO)']['scale'], 7 / 8, delta=0.02)
    self.assertGreater(exact['snr'], rows['exact critic, lambda 1']['snr'])
    self.assertGreater(rows['exact critic, lambda 1']['snr'], rows['raw outcome']['snr'])
    self.assertGreater(rows['raw outcome']['noise'], exact['noise'])

  def test_report(self):
    rows = [dict(step=0, horizon=3, visibility=0.5) | r for r in judge.rows(evidence(), samples=20)]
    self.assertLen([r for r in rows if r['part'] == 'turn'], (len(ONLY) + 1) * TURNS)
    text = audit_report.text(rows)
    self.assertIn('group z-score (GRPO)', text)
    undefined = [r | dict(cosine=float('nan')) for r in rows]  # its interval may be defined still
    self.assertRegex(audit_report.text(undefined), r'\(GRPO\) +-  +\d\.\d\d ±')
    self.assertLen(audit_report.figure(rows).subfigs, 2)

  @parameterized.parameters(
      (dict(group=1), 'at least 2'), (dict(only=('grpo',)), "unknown estimator 'grpo'"))
  def test_refuses(self, changes, message):
    with self.assertRaisesRegex(ValueError, message):
      audit.Auditor(actor(), **(dict(prompts=2, group=2) | changes))

  def test_other_tasks_are_refused(self):
    with self.assertRaisesRegex(ValueError, 'task horizon, got arithmetic'):
      audit.Auditor(build.actor(base.get_config('smoke,arithmetic')), prompts=2, group=2)


class BranchedTest(absltest.TestCase):

  def test_continuations_agree_with_exact_values_within_their_error(self):
    made, plan = actor(), branch.monte_carlo(group=4, turns=TURNS, samples=64)
    play = lambda params, key: sampler.sample(
        made.policy, params, made.task, made.layout, made.knobs, key, step=0, prompts=8,
        samples=plan.rows, temperature=1.0, lineage=plan.lineage_KG)
    rollout = jax.jit(play)(params(), keys.root(5))
    exact = behaviour.solve(made.knobs, right_of(params()['table']), actions=ACTIONS)
    kept = branch.kept(plan, rollout)
    want = np.asarray(oracle.lookup(exact.V, types.stream(kept.state_id)))
    mean, error = (np.asarray(f(plan, rollout)) for f in (branch.values, branch.errors))
    mask = np.asarray(types.stream(kept.mask))
    z = (mean - want)[mask] / np.maximum(error[mask], 1e-6)
    sure = error[mask] == 0  # 64 equal outcomes: the state is all but decided
    self.assertLess(np.abs((mean - want)[mask][sure]).max(initial=0.0), 0.12)
    self.assertLess(np.abs(z[~sure]).max(), 4.5)
    self.assertAlmostEqual(np.mean(z[~sure] ** 2), 1, delta=0.6)
    with self.assertRaisesRegex(ValueError, 'at least 2 continuations'):
      branch.errors(branch.monte_carlo(group=4, turns=TURNS, samples=1), rollout)


class CatalogueTest(absltest.TestCase):

  def test_every_return_and_advantage_is_audited_or_left_out_with_a_reason(self):
    used = {spec[slot]['name'] for spec in catalogue.ESTIMATORS.values()
            for slot in ('returns', 'advantages')}
    for module in (advantages, baselines, anchors, agents, trees, returns, gae):
      for name in module.__all__:
        if name not in ('shared_prefix',) and name not in catalogue.LEFT_OUT:
          self.assertIn(name, used, f'{module.__name__}.{name}')

  def test_families_hold_every_critic_once(self):
    made = catalogue.families(list(catalogue.ESTIMATORS))
    self.assertCountEqual([n for family in made.values() for n in family], catalogue.CRITIC)


class JudgeTest(absltest.TestCase):

  def test_gradient_measures_of_known_normals(self):
    # g = m + noise in D = 50 dimensions: SNR = |m| / sqrt(D) sigma, cosine that of m.
    rng = np.random.default_rng(0)
    B, D = 400, 50
    true, other = np.zeros(D), np.zeros(D)
    true[0], other[0], other[1] = 1.0, 1.0, 1.0
    t = true + 0.1 * rng.standard_normal((B, D))
    g = other + 0.5 * rng.standard_normal((B, D))
    found = judge._gradients(g, t, np.ones((1, B)))
    self.assertAlmostEqual(found['cosine'][0], 2**-0.5, delta=0.02)
    self.assertAlmostEqual(found['snr'][0], 2**0.5 / (0.5 * D**0.5), delta=0.02)
    step = np.mean(g @ true / np.linalg.norm(g, axis=1))
    self.assertAlmostEqual(found['step_cosine'][0], step, delta=0.02)

  def test_noise_alone_has_no_signal(self):
    g = np.random.default_rng(1).standard_normal((30, 200))
    found = judge._gradients(g, g + 1.0, np.ones((1, 30)))
    self.assertFalse(found['snr'][0] > 0.05)


if __name__ == '__main__':
  absltest.main()
