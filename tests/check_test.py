"""Every combination that cannot work is refused with one line that says what and where."""

import importlib
import math

from absl.testing import absltest
from absl.testing import parameterized

from configs import _tasks
from configs import base
from grpo import build
from grpo import check


def plain(name='grpo', spec='smoke', **overrides):
  config = importlib.import_module(f'configs.{name}').get_config(spec)
  return build.plain(config, {k.replace('__', '.'): v for k, v in overrides.items()})


class CheckTest(parameterized.TestCase):

  @parameterized.parameters(
      ('grpo', dict(sample__group=1), 'sample.group=1'),
      ('rloo', dict(sample__group=1), 'sample.group=1'),
      ('grpo', dict(sample__prompts=7), 'sample.prompts=7'),
      ('grpo', dict(steps=6), 'log_every=5'),
      ('grpo', dict(checkpoint__every=3), 'checkpoint.every=3'),
      ('grpo', dict(audit__every=7), 'audit.every=7 must be a multiple of log_every=5'),
      ('grpo', dict(audit__every=-5), 'audit.every: must be at least 0'),
      ('grpo', dict(audit__batches=1), 'audit.batches: must be at least 2'),
      ('grpo', dict(sample__temperature=0.0), 'sample.temperature'),
      ('grpo', dict(train__learning_rate=-1.0), 'train.learning_rate'),
      ('grpo', dict(train__b1=1.0), 'train.b1'),
      ('grpo', dict(clone__pass_rate=1.5), 'clone.pass_rate'),
      ('grpo', dict(method__old='yesterday'), 'method.old'),
      ('grpo', dict(method__kl_coef=0.1), 'method.kl_coef'),
      ('grpo', dict(method__kl={'name': 'k3'}), 'method.kl_coef'),
      ('grpo', dict(method__reference_every=5), 'method.reference_every'),
      ('grpo', dict(method__advantages={'name': 'critic'}), 'method.critic.name is none'),
      ('grpo', dict(method__returns={'name': 'lambda_return', 'lam': 1.0, 'discount': 1.0}),
       'method.critic.name is none'),
      ('grpo', dict(sample__lag=1, method__old='recomputed'), 'method.old=recomputed'),
      ('reinforce', dict(sample__lag=1), 'sample.lag=1'),
      ('reinforce', dict(train__minibatches=2), 'method.surrogate=reinforce'),
      ('sao', dict(method__critic__start='middle'), 'method.critic.start'),
      ('sao', dict(method__critic__updates=0), 'method.critic.updates'),
      ('grpo', dict(task__decisive=9), 'task.decisive=9'),
      ('grpo', dict(task__horizon=9), 'task.horizon=9'),
      ('grpo', dict(task__visibility=2.0), 'task.visibility'),
      ('grpo', dict(task__delay=8), 'task.delay=8'),
      ('grpo', dict(task__order=3), 'task.order=3: must be 0, or an integer that divides'),
      ('grpo', dict(task__order=-1), 'task.order=-1: must be 0'),
      ('grpo', dict(task__order=1, task__decisive=0), 'divides task.decisive=0'),
      ('grpo', dict(task__order=2, task__undo=0.5), 'task.undo=0.5 needs task.order=0, got 2'),
      ('grpo', dict(task__order=1, task__fatal=1.0), 'task.fatal=1.0 needs task.order=0, got 1'),
      ('grpo', dict(schedule={'order': {'name': 'stairs', 'at': [1], 'to': [1, 3]}}),
       'schedule.order: task.order=3'),
      ('grpo', dict(task__switch=0.1), 'task.switch=0.1 needs task.goals=2'),
      ('grpo', dict(window__forget=1), 'window.forget=1: must be in 0..window.carry-1'),
      ('grpo', dict(window__forget=-1), 'window.forget=-1'),
      ('grpo', dict(window__summary=1), 'window.summary=1: must be 0, or at least 2'),
      ('grpo', dict(window__summary=-2), 'window.summary: must be at least 0'),
      ('grpo', dict(window__compactions=-2), 'window.compactions: must be at least 0, or -1'),
      ('grpo', dict(train__summaries=2), 'train.summaries: allowed are 0 and 1'),
      ('grpo', dict(method__filter={'f': {'name': 'fresh', 'max_lag': -1}}),
       'method.filter.f.max_lag: must be at least 0, got -1'),
      ('grpo', dict(method__surrogate={'name': 'ppo_clip', 'low': -0.2, 'high': 0.2}),
       'method.surrogate.low: must be at least 0, got -0.2'),
      ('grpo', dict(method__shape={'p': {'name': 'placebo', 'share': 2.0}}),
       'method.shape.p.share: must be at least 0 and at most 1, got 2.0'),
      ('grpo', dict(method__returns={'name': 'reward_to_go', 'discount': 1.5}),
       'method.returns.discount: must be at least 0 and at most 1'),
      ('grpo_adaptive_kl', dict(method__memory__kl__target=0.0), 'kl.target: must be above 0'),
      ('sao', dict(method__critic__lam='a'), "method.critic.lam: must be a number, got 'a'"),
      ('sao', dict(method__critic__updates=1.5), 'method.critic.updates: must be an integer'),
      ('grpo', dict(model={'name': 'tabular', 'scale': -1.0}),
       'model.scale: must be at least 0 and finite, got -1.0'),
      ('grpo', dict(train__epochs=1.5), 'train.epochs: must be an integer, got 1.5'),
      ('grpo', dict(train__b1='a'), "train.b1: must be a number, got 'a'"),
      ('grpo', dict(evaluate__prompts=True), 'evaluate.prompts: must be an integer, got True'),
      ('grpo', dict(sample__lag=20), 'sample.lag=20: the first batch is trained on at step 20, and '
       'steps=20 end before'),
      ('grpo', dict(sample__lag=10, sample__delay={'name': 'log_normal', 'sigma': 1.0}),
       'sample.lag=10: the first batch is trained on at step 22'),  # the slowest of four takes 2.2
      ('remax', dict(method__returns={'name': 'potential_look_ahead', 'n': None}),
       'sample.greedy gives a baseline of rewards as the task gives them, and potential_look'),
      ('running_mean', dict(method__shape={'s': {'name': 'scale', 'factor': 2.0}}),
       'running_mean gives a baseline of rewards as the task gives them, and scale changes'),
      ('grpo', dict(method__weigh={'name': 'prefix_share'}), 'method.weigh: holds slots'),
      ('grpo', dict(method__surrogate={'low': 1}), 'method.surrogate: a slot is'),
      ('grpo', dict(sample__delay={'sigma': 1.0}), 'sample.delay: a slot is'),
      ('grpo', dict(schedule={'manner': 0.5}), 'schedule: holds slots, each under a label'),
      ('grpo', dict(schedule={'manner': {'name': 'stairs', 'at': [1], 'to': [0.0, 5.0]}}),
       'schedule.manner: task.manner: must be in'),
      ('icepop', dict(method__correction={'a': {'name': 'icepop', 'low': 5.0, 'high': 0.5}}),
       'icepop goes from low=5.0 to high=0.5: nothing'),
      ('curriculum', dict(method__filter={'a': {'name': 'pass_rate', 'low': 0.8, 'high': 0.2}}),
       'pass_rate goes from low=0.8 to high=0.2'),
      ('dapo', dict(method__filter={'a': {'name': 'everything'}}), 'no method.filter chooses'),
      ('grpo', dict(mesh__data=64, sample__prompts=128), 'devices'),
      ('grpo', dict(evaluate__heldout=2), 'evaluate.heldout'),
      ('grpo', dict(train__learning_rate=math.nan), 'train.learning_rate: .* nan'),
      ('grpo', dict(train__learning_rate=math.inf), 'train.learning_rate: .* finite'),
      ('grpo', dict(train__eps=0.0), 'train.eps: must be above 0'),
      ('grpo', dict(train__weight_decay=-1.0), 'train.weight_decay'),
      ('grpo', dict(train__decay={'name': 'cosine', 'floor': 1.5}), 'train.decay.floor: .* 1.5'),
      ('grpo', dict(train__decay={'name': 'linear', 'length': 5}, train__warmup=5),
       'begins at update 5, .* over at update 5'),
      ('grpo', dict(train__decay={'name': 'linear'}, train__warmup=10**6), 'begins at update 1000'),
      ('grpo', dict(train__decay='cosine'), 'train.decay: a slot is'),
      ('grpo', dict(method__surrogate__low=math.nan), 'method.surrogate.low: .* nan'),
      ('grpo', dict(method__entropy_coef=math.inf), 'method.entropy_coef: must be finite'),
      ('grpo', dict(model__hidden=0), 'model.hidden: .* at least 1'),
      ('grpo', dict(model__kv_heads=-1), 'model.kv_heads'),
      ('grpo', dict(model__theta=0.0), 'model.theta'),
      ('grpo', dict(clone__every=7), 'clone.every=7'),
      ('sao', dict(method__critic__warmup=-3), 'method.critic.warmup'),
      ('horizon_chunked', dict(method__chunk={'name': 'fixed', 'length': 0}),
       'method.chunk.length'),
  )
  def test_refused(self, name, overrides, message):
    with self.assertRaisesRegex(ValueError, message):
      check.check(plain(name, **overrides))

  @parameterized.parameters(
      (dict(method__filter={'f': {'name': 'fresh', 'max_lag': 'a'}}),
       "method.filter.f.max_lag: must be int, got 'a'"),
      (dict(schedule={'manner': {'name': 'stairs', 'at': 1, 'to': [0.0, 1.0]}}),
       'schedule.manner.at: must be .*, got 1'),
      (dict(schedule={'manner': {'name': 'stairs', 'at': [2.5], 'to': [0.0, 1.0]}}),
       r'schedule.manner.at: must be .*int\], got \[2.5\]'),
      (dict(model={'name': 'tabular', 'scale': 'a'}), "model.scale: must be float, got 'a'"),
      (dict(model__hidden=32.0), 'model.hidden: must be int, got 32.0'),
      (dict(method__returns={'name': 'look_ahead', 'n': 1.5}),
       'method.returns.n: must be int | None, got 1.5'),
      (dict(task__actions='a'), "task.actions: must be int, got 'a'"),
      (dict(task__drift=None), 'task.drift: must be a number, got None'))
  def test_arguments_of_slots_have_a_type(self, overrides, message):
    with self.assertRaisesRegex(ValueError, message):
      build.parts(plain('grpo', **overrides))

  @parameterized.parameters(
      ({}, 'window.summary=3 is never written: an episode of 8 turns is one window'),
      (dict(window__turns=4, task__max_turns=8, task__horizon=5),
       r'summary=3 is never written: an episode of task.horizon=5 turns is one window \(window'
       r'.turns=4, window.carry=1\)'),
      (dict(window__summary=0, window__compactions=2),
       'window.compactions=2 limits nothing: .*; lower window.turns, or use -1'))
  def test_windows_that_training_never_reaches(self, overrides, message):
    def layout(**more):
      c = plain(**(dict(window__summary=3) | overrides | more))
      check.check(c)  # it may be tested so
      return c, build.actor(c).layout

    with self.assertRaisesRegex(ValueError, message):
      check.training(*layout())
    check.training(*layout(window__compactions=0))  # says that one window is meant
    check.training(*layout(task__horizon=8, window__turns=3))
    check.training(*layout(window__summary=0, window__compactions=-1))

  @parameterized.parameters(
      ('line', dict(task__switch=1.5), 'task.switch: must be in'),
      ('line', dict(task__unreliable=-0.1), 'task.unreliable: must be in'),
      ('line', dict(task__rules=3), 'task.rules: must be in 0..2'),
      ('line', dict(task__decisive=5, task__max_turns=24, task__horizon=24),
       'task.decisive: must be in 0..4 for task line'),
      ('line', dict(task__horizon=8), 'task.horizon=8: task.decisive=2 needs at least 9'),
      ('line', dict(task__horizon=13), 'task.horizon=13 does not fit'),
      ('meeting', dict(task__roles=4), 'task.roles: must be in 1..3'),
      ('meeting', dict(task__horizon=0), 'task.horizon: must be at least 1, got 0'),
      ('line', dict(task__horizon=-1), 'task.horizon: must be at least 1, got -1'),
      ('triage', dict(task__sources=0), 'task.sources: must be at least 1'),
      ('triage', dict(task__delay=8), 'task.delay=8'),
      ('triage', dict(task__partial=2), 'task.partial'),
  )
  def test_scenes_refuse(self, task, overrides, message):
    check.check(plain(spec=f'smoke,{task}'))
    with self.assertRaisesRegex(ValueError, message):
      check.check(plain(spec=f'smoke,{task}', **overrides))

  @parameterized.parameters(
      ('arithmetic', dict(products=0.5), "task.products=0.5 needs task.operators="),
      ('countdown', dict(numbers=1), 'task.numbers: must be at least 2'),
      ('countdown', dict(mixed=-0.1), 'task.mixed'),
      ('ladder', dict(level=0), 'task.level: must be at least 1'),
      ('ladder', dict(level=3, max_level=2), 'task.level=3 does not fit'),
      ('keychain', dict(doors=3, max_doors=2), 'task.doors=3 does not fit'),
      ('keychain', dict(brittle=2.0), 'task.brittle'),
      ('horizon', dict(sources=0), 'task.sources: must be at least 1'),
      ('horizon', dict(unreliable=1.5), 'task.unreliable'),
      ('sokoban', dict(boxes=0), 'task.boxes: must be at least 1'),
      ('sokoban', dict(depth=9, max_depth=8), 'task.depth=9 does not fit'),
      ('line', dict(horizon=2 * 10 ** 9), 'task.horizon: must be at most 65536, got 2000000000'),
      ('horizon', dict(actions=10 ** 9), 'task.actions: must be at most 4096, got 1000000000'),
      ('programs', dict(tests=5000), 'task.tests: must be at most 4096'),
  )
  def test_tasks_refuse_impossible_knobs(self, task, knobs, message):
    overrides = {f'task__{name}': value for name, value in knobs.items()}
    with self.assertRaisesRegex(ValueError, message):
      check.check(plain(spec=f'smoke,{task}', **overrides))

  @parameterized.parameters(
      (dict(task__wrong_at=8), 'task.wrong_at=8 never comes with task.horizon=8'),
      (dict(task__pin_at=100), 'task.pin_at=100 never comes'),
      (dict(task__drop_at=-2), 'task.drop_at: must be a turn, or -1'),
  )
  def test_interventions_that_never_come_are_refused(self, overrides, message):
    check.check(plain(spec='smoke,triage,interventions', task__wrong_at=7))
    with self.assertRaisesRegex(ValueError, message):
      check.check(plain(spec='smoke,triage,interventions', **overrides))

  @parameterized.parameters(
      (dict(window__turns=10 ** 6), 'window.turns: must be at most 65536, got 1000000'),
      (dict(sample__prompts=2 ** 20), r'sample: prompts x group must be at most 1048576 episodes'),
      (dict(evaluate__prompts=10 ** 9), 'evaluate: prompts x group must be at most'),
  )
  def test_sizes_without_end_are_refused(self, overrides, message):
    longest = dict(task__max_turns=2 ** 16, task__horizon=2 ** 16, task__decisive=2 ** 16)
    check.check(plain(**longest))
    with self.assertRaisesRegex(ValueError, message):
      check.check(plain(**overrides))

  def test_fields_of_another_task(self):
    """`task.name` alone does not choose a task: its fields are those of the config's argument."""
    for mine in _tasks.TASKS:
      c = plain(spec=f'smoke,{mine}')
      for name in set(_tasks.TASKS) - {mine}:
        other = c | dict(task=c['task'] | dict(name=name))
        with self.assertRaisesRegex(ValueError, '^task'):
          check.check(other)
          build.parts(other)

  @parameterized.parameters(('horizon', 'horizon', 'max_turns'),
                            ('arithmetic', 'terms', 'max_terms'),
                            ('keychain', 'doors', 'max_doors'), ('line', 'horizon', 'max_turns'))
  def test_room_follows_its_knob_and_can_be_larger(self, task, knob, room):
    t = base.get_config(f'smoke,{task}').task
    t[knob] = 4
    self.assertEqual(t[room], 4)
    t[room] = 6
    self.assertEqual((t[knob], t[room]), (4, 6))

  @parameterized.parameters(*_tasks.TASKS)
  def test_every_task_passes_as_it_is(self, task):
    check.check(plain(spec=f'smoke,{task}'))

  @parameterized.parameters('grpo', 'dr_grpo', 'dapo', 'grpo_dis', 'cispo', 'gspo', 'rloo',
                            'reinforce', 'ppo', 'vapo', 'sao', 'horizon_chunked')
  def test_published_configs_pass(self, name):
    check.check(plain(name))

  def test_settings_are_knobs_that_the_task_takes(self):
    c = plain(task__decisive=4)
    check.check(c, {'task.order': [1.0, 2.0], 'task.decisive': [4.0, 2.0]}, 2)
    with self.assertRaisesRegex(ValueError, r'^settings: task.order=3.0: .*task.decisive=4.0'):
      check.check(c, {'task.order': [1.0, 3.0], 'task.decisive': [3.0, 4.0]}, 2)
    with self.assertRaisesRegex(ValueError, '^settings: task.decisive=9.0 does not fit'):
      check.check(c, {'task.decisive': [9.0]}, 1)

  def test_settings_need_a_value_for_each_seed(self):
    with self.assertRaisesRegex(ValueError, '2 values for 3 seeds'):
      check.check(plain(), {'train.learning_rate': [0.1, 0.2]}, 3)


class BuildTest(parameterized.TestCase):

  @parameterized.parameters(
      (dict(train__learning_rat=1.0), 'train.learning_rate'),
      (dict(learning_rate=1.0), 'train.learning_rate'),
      (dict(train__steps=5), 'nearest: steps, clone.steps'),
      (dict(methd__kl__name='k3'), 'nearest: method.kl.name'),
      (dict(task__wrong_at=2), 'task.wrong_at.*: it needs .* --config=FILE:SIZE,TASK,intervention'),
  )
  def test_unknown_paths_name_the_nearest(self, overrides, nearest):
    with self.assertRaisesRegex(ValueError, nearest):
      plain(**overrides)

  @parameterized.parameters(
      (dict(method__surrogate={'name': 'ppo_clp', 'low': 0.2, 'high': 0.2}), 'ppo_clip'),
      (dict(method__surrogate={'name': 'ppo_clip', 'low': 0.2}), 'needs high'),
      (dict(method__surrogate={'name': 'ppo_clip', 'low': 0.2, 'hgh': 0.2}), 'high'),
      (dict(task__name='horizn'), 'horizon'),
      (dict(model__name='transfomer'), 'transformer'),
      (dict(window__turns=0), 'window.turns'),
      (dict(window__turns=2, window__carry=0), 'window.carry'),
      (dict(model__kv_heads=3), 'kv_heads'),
  )
  def test_bad_parts_are_refused(self, overrides, message):
    with self.assertRaisesRegex(ValueError, message):
      build.parts(plain(**overrides))


if __name__ == '__main__':
  absltest.main()
