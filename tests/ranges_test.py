"""Numbers and pairs of arguments without sense are refused: one line, what and where."""

import importlib
import inspect
import math

from absl.testing import absltest
from absl.testing import parameterized
import numpy as np

from grpo import build
from grpo import check
from grpo import ranges
from grpo import slots
from grpo.learn import update
from tests import rollouts

MODULES = dict(shape=(slots.rewards,), filter=(slots.filters,), correction=(slots.corrections,),
               surrogate=(slots.surrogates, slots.trust), gate=(slots.gates,),
               memory=(slots.memory,))
CLIP = dict(name='ppo_clip', low=0.2, high=0.2)
BANDS = dict(name='two_bands', up_low=0.0, up_high=1.2, down_low=0.8, down_high=math.inf)
KL = dict(name='adaptive_kl', target=0.1, horizon=10)


def plain(name, path, value):
  config = importlib.import_module(f'configs.{name}').get_config('smoke')
  return build.plain(config, {path: value})


def slot(name, **arguments):
  return dict(name=name, **arguments)


class RangesTest(parameterized.TestCase):

  @parameterized.parameters(
      ('grpo', 'method.surrogate', CLIP | {'dual': 1.0}, 'surrogate.dual: must be above 1, got 1'),
      ('grpo', 'method.surrogate', CLIP | {'dual': -3.0}, 'surrogate.dual: must be above 1'),
      ('grpo', 'method.surrogate', CLIP | {'low': math.inf}, 'surrogate.low: must be finite'),
      ('grpo', 'method.surrogate', BANDS | {'up_low': 5.0}, 'from up_low=5.0 to up_high=1.2: noth'),
      ('grpo', 'method.surrogate', BANDS | {'down_high': 0.5}, 'down_low must be at most down_hi'),
      ('grpo', 'method.surrogate', BANDS | {'up_low': math.inf}, 'up_low: must be finite, got inf'),
      ('sapo', 'method.surrogate', slot('sapo', positive=math.inf), 'positive: must be finite'),
      ('grpo_tis', 'method.correction.weight', slot('tis', floor=5.0),
       'method.correction.weight: tis goes from floor=5.0 to cap=2.0: nothing'),
      ('icepop', 'method.correction.weight', slot('icepop', low=6.0), 'from low=6.0 to high=5.0'),
      ('grpo_reject', 'method.correction.reject', slot('reject', high=-1.0),
       'method.correction.reject.high: must be at least 0, got -1.0'),
      ('grpo_reject', 'method.correction.reject', slot('reject', high=0.0, kind='k1'),
       'method.correction.reject.high: must be above 0, got 0.0'),
      ('grpo_reject', 'method.correction.reject', slot('reject', high=0.5, low=2.0, kind='k1'),
       'reject goes from low=2.0 to high=0.5'),
      ('grpo_reject', 'method.correction.reject', slot('reject', high=0.5, kind='k1'),
       'reject goes from low=2.0 to high=0.5'),   # low is 1 / high where it is not given
      ('clip_cov', 'method.gate', {'c': slot('clip_cov', low=5.0, high=1.0)}, 'from low=5.0'),
      ('curriculum', 'method.filter', {'c': slot('pass_rate', low=0.9)}, 'from low=0.9 to high'),
      ('grpo', 'method.shape', {'o': slot('clip', low=2.0, high=-1.0)},
       'method.shape.o: clip goes from low=2.0 to high=-1.0: nothing; low must be at most high'),
      ('grpo', 'method.shape', {'o': slot('scale', factor=math.inf)}, 'factor: must be finite'),
      ('grpo', 'method.shape', {'o': slot('scale', factor=1e20)},
       r'method.shape.o.factor: must be from 1e-06 to 1e\+06 in size, got 1e\+20'),
      ('grpo', 'method.shape', {'o': slot('scale', factor=-1e-20)}, 'factor: must be from 1e-06'),
      ('grpo', 'method.shape', {'o': slot('kl_in_reward', coef=1e9)},
       r'method.shape.o.coef: must be at most 1e\+06 in size, got 1000000000.0'),
      ('grpo', 'method.shape', {'o': slot('kl_in_reward', coef=math.inf)}, 'coef: must be finite'),
      ('grpo', 'method.shape', {'o': slot('overlong', max_length=0)},
       'method.shape.o.max_length: must be at least 1, got 0'),
      ('gdpo', 'method.advantages', slot('decoupled_zscore', weights=(math.nan, 1.0)),
       'weights: must be a number, got nan'),
      ('gdpo', 'method.advantages', slot('decoupled_zscore', weights=[1.0, -math.inf]),
       'weights: must be finite, got -inf'),
      ('vapo', 'method.auxiliary', {'n': slot('positive_nll', coef=math.inf)}, 'must be finite'),
      ('empg', 'method.advantages', slot('empg', zeta=math.inf),
       'method.advantages.zeta: must be finite'),
      ('gigpo', 'method.advantages', slot('gigpo', omega=math.inf),
       'method.advantages.omega: must be finite'),
      ('grpo', 'method.advantages', slot('group_zscore', ddof=4),
       'method.advantages.ddof: must be at most sample.group - 1 = 3, .*; got 4'),
      ('grpo', 'method.chunk', slot('turn', count=0), 'method.chunk.count: must be at least 1'),
      ('grpo', 'method.chunk', slot('fixed', length=4, count=-2), 'method.chunk.count: must be at'),
      ('grpo', 'method.aggregate', slot('window', window=0), 'aggregate.window: must be at'),
      ('spo_single', 'method.memory', {'t': slot('prompt_tracker', least=1.0)},
       'method.memory.t.least: must be above 0 and below 1, got 1.0'),
      ('spo_single', 'method.memory', {'t': slot('prompt_tracker', least=-1.0)}, 'must be above 0'),
      ('spo_single', 'method.memory', {'t': slot('prompt_tracker', most=1.5)}, 'most: .* below 1'),
      ('spo_single', 'method.memory', {'t': slot('prompt_tracker', least=0.9, most=0.1)},
       'prompt_tracker goes from least=0.9 to most=0.1'),
      ('spo_single', 'method.memory', {'t': slot('prompt_tracker', prompt=0)},
       'method.memory.t.prompt: must be at least 1'),
      ('sao', 'method.critic.freeze', 3, 'method.critic.freeze: must be a word .*; got 3'),
      ('sao', 'method.critic.bootstrap', 'x', 'bootstrap: allowed are critic, repeat, none; got'),
      ('grpo_adaptive_kl', 'method.memory', {'a': KL, 'b': KL | {'target': 0.5}},
       'method.memory: a and b are both adaptive_kl'),
      ('grpo', 'method.weigh', {'a': slot('prefix_share'), 'b': slot('prefix_share')},
       'method.weigh: a and b are both prefix_share and weigh by the same twice: keep one'),
      ('grpo', 'method.weigh', {'u': slot('uncertainty', by='baseline')},
       'method.weigh.u: uncertainty with by=baseline: nothing gives a baseline'),
      ('remax', 'sample.greedy', 0, 'method.advantages=minus_baseline: nothing gives a baseline'),
      ('bnpo', 'method.shape', {'o': slot('scale', factor=5.0)},
       r'beta_density takes rewards in \[0, 1\], and method.shape.o, scale, moves them out'),
      ('bnpo', 'method.shape', {'o': slot('scale', factor=-1.0)}, 'scale, moves them out'),
      ('bnpo', 'method.shape', {'o': slot('overlong', cache=4)}, 'overlong, moves them out'),
      ('bnpo', 'method.shape', {'o': slot('kl_in_reward', coef=0.1)}, 'kl_in_reward, moves them'),
      ('bnpo', 'method.shape', {'o': slot('clip', low=0.5, high=1.0)}, 'clip, moves them out'),
      ('bnpo', 'method.returns', slot('potential_look_ahead', n=None), 'look_ahead leaves'),
  )
  def test_refused(self, name, path, value, message):
    with self.assertRaisesRegex(ValueError, message) as caught:
      check.check(plain(name, path, value))
    self.assertNotIn('\n', str(caught.exception))

  @parameterized.parameters(
      ('grpo', 'method.surrogate', CLIP | {'dual': 3.0}),
      ('grpo', 'method.surrogate', CLIP | {'dual': None}),
      ('grpo', 'method.surrogate', BANDS),
      ('grpo', 'method.surrogate', dict.fromkeys(BANDS, 0.0) | {'name': 'two_bands'}),
      ('grpo', 'method.shape', {'o': slot('clip', low=-2.0, high=-1.0)}),
      ('grpo', 'method.shape', {'o': slot('scale', factor=-2.0)}),
      ('grpo', 'method.advantages', slot('group_zscore', ddof=3)),
      ('spo_single', 'method.advantages', slot('baseline_zscore', ddof=1)),
      ('grpo_reject', 'method.correction.reject', slot('reject', high=0.0)),
      ('grpo_reject', 'method.correction.reject', slot('reject', high=0.5, low=0.1, kind='k1')),
      ('grpo', 'method.weigh', {'a': slot('prefix_share'), 'b': slot('uncertainty')}),
      ('horizon_chunked', 'method.returns', slot('look_ahead', n=10**9)),
      ('bnpo', 'method.shape', {'o': slot('scale', factor=0.5), 'p': slot('placebo')}),
      ('bnpo', 'method.shape', {'o': slot('clip', low=0.0, high=1.0)}),
  )
  def test_accepted(self, name, path, value):
    check.check(plain(name, path, value))

  def test_defaults_of_pairs_are_those_of_the_functions(self):
    for place, name, *pair in ranges.PAIRS:
      function = next(getattr(m, name) for m in MODULES[place] if name in m.__all__)
      for argument, default in pair:
        given = inspect.signature(function).parameters[argument].default
        self.assertEqual(None if given is inspect.Parameter.empty else given, default, argument)


class ShapesTest(parameterized.TestCase):
  """What only the arrays can tell."""

  def test_windows_of_another_layout(self):
    with self.assertRaisesRegex(ValueError, 'window=7 must divide the 12 positions of a row'):
      slots.aggregate.window(np.ones((1, 2, 12), bool), window=7)
    x = rollouts.rollout(np.ones((1, 2, 12), bool), np.zeros((1, 2, 12)), segments=2)
    tracker = slots.memory.prompt_tracker(prompt=7)
    with self.assertRaisesRegex(ValueError, 'prompt=7 must be at most 6, the positions of a wind'):
      tracker.recall(tracker.initial(x), None, x)

  def test_a_word_that_names_nothing(self):
    grads = dict(attention=np.ones(2), head=np.ones(3))
    frozen = update.freeze(grads, 'attention')
    np.testing.assert_array_equal(frozen['attention'], np.zeros(2))
    np.testing.assert_array_equal(frozen['head'], np.ones(3))
    self.assertIs(update.freeze(grads, ''), grads)
    with self.assertRaisesRegex(ValueError, "freeze='nosuch': .* words there are attention, head"):
      update.freeze(grads, 'nosuch')
    table = dict(table=np.ones(2))   # it has no parts, and small runs of SAO train it whole
    np.testing.assert_array_equal(update.freeze(table, 'attention')['table'], np.ones(2))


if __name__ == '__main__':
  absltest.main()
