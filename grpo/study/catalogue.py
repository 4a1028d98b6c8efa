"""Every credit estimator by name, as a choice of slots: what the audit and its figures compare.

An entry says what is credited (chunk), with which return and which advantage, and nothing of the
loss. 'exact' entries are given exact values, 'noisy' ones values with an error, 'trained' ones
those of a run's own critic. What needs another kind of rollout, or belongs to no estimator of its
own, is in `LEFT_OUT`, with the reason.
"""

from collections.abc import Mapping
from typing import Any

from grpo import slots
from grpo import types
from grpo.objective import method as methods

__all__ = ['ESTIMATORS', 'GROUP', 'CRITIC', 'LEFT_OUT', 'method', 'own', 'families']


def _slots(chunk, returns, advantages, **changes):
  """Slots of a method; an entry is a name or (name, arguments)."""
  full = lambda entry: dict(name=entry) if isinstance(entry, str) else dict(name=entry[0],
                                                                           **entry[1])
  return dict(chunk=full(chunk), returns=full(returns), advantages=full(advantages)) | changes


def _whole(advantages):
  return _slots('whole', 'outcome', advantages)


def _critic(lam, advantages='critic'):
  return _slots('turn', ('lambda_return', dict(lam=lam, bootstrap='none')), advantages)


# Credit of whole trajectories, and of turns against a group. Label -> slots.
GROUP: Mapping[str, dict] = {
    'raw outcome': _whole('raw'),
    'group mean (Dr. GRPO)': _whole('group_center'),
    'group z-score (GRPO)': _whole('group_zscore'),
    'leave one out (RLOO)': _whole('leave_one_out'),
    'group mean, batch std': _whole('group_mean_batch_std'),
    'batch mean': _whole('batch_center'),
    'batch z-score': _whole('batch_zscore'),
    'perfect baseline': _whole('minus_baseline'),
    'perfect baseline, z-score': _whole('baseline_zscore'),
    'by length (OPO)': _whole('length_weighted'),
    'mean over mean (MaxRL)': _whole('mean_over_mean'),
    'beta density (BNPO)': _whole('beta_density'),
    'informative (GPG)': _whole('informative_center'),
    'log mean exp': _whole(('log_mean_exp', dict(tau=0.5))),
    'best of group': _whole('best_of_group'),
    'whitened (RF++ baseline)': _whole('center_whiten'),
    'turn to go, z-score': _slots('turn', ('look_ahead', dict(n=None)), 'group_zscore'),
    'turn reward, summed z': _slots('turn', ('look_ahead', dict(n=0)), 'process_zscore'),
    'turn and outcome (MT-GRPO)': _slots('turn', ('look_ahead', dict(n=0)), 'mt_grpo'),
    'turn z, joint (IGPO)': _slots('turn', ('look_ahead', dict(n=0)), 'igpo'),
    'look ahead 1, group': _slots('turn', ('look_ahead', dict(n=1, bootstrap='group')),
                                  'group_center'),
    'potential': _slots('turn', ('potential_look_ahead', dict(n=None)), 'group_zscore'),
    'anchors (GiGPO)': _slots('turn', ('reward_to_go', dict(discount=0.95)), 'gigpo'),
    'anchors, std (GiGPO)': _slots('turn', 'reward_to_go', ('gigpo', dict(normalise='mean_std'))),
    'anchor tree (HGPO)': _slots('turn', ('reward_to_go', dict(discount=0.95)), 'hgpo'),
    'entropy gate (EMPG)': _slots('turn', 'reward_to_go', 'empg'),
}
LAMBDAS = (0.0, 0.5, 0.9, 0.95, 1.0)
# Credit with values of a critic.
CRITIC: Mapping[str, dict] = (
    {f'critic, lambda {lam:g}': _critic(lam) for lam in LAMBDAS} | {
        'critic, lambda by length': _slots(
            'turn', ('adaptive_lambda_return', dict(alpha=1.5, bootstrap='none')), 'critic'),
        'critic, lambda 0.95, whitened': _critic(0.95, 'critic_whiten'),
        'critic, two levels': _slots(
            'turn', ('bilevel_return', dict(turn_lam=0.95, lam=1.0)), 'critic'),
        'critic, windows': _slots('turn', ('cross_segment_return', dict(lam=0.95)), 'critic'),
        'critic, windows by length': _slots(
            'turn', ('adaptive_cross_segment_return', dict(alpha=1.5)), 'critic'),
        'critic, look ahead 1': _slots(
            'turn', ('look_ahead', dict(n=1, bootstrap='critic')), 'critic'),
        'half critic, half group': _slots(
            'turn', 'reward_to_go', ('mixed_baseline', dict(weight=0.5)))})
ESTIMATORS: Mapping[str, dict] = GROUP | {
    f'{kind} {name}': spec for kind in ('exact', 'noisy') for name, spec in CRITIC.items()}
LEFT_OUT: Mapping[str, str] = {
    'shared_prefix': 'needs rollouts that share prefixes',
    'tree_grpo': 'needs rollouts that share prefixes',
    'treerl': 'needs rollouts that share prefixes',
    'spo_tree': 'needs rollouts that share prefixes',
    'minus_optimal_value': 'needs episodes of the reference',
    'adaptive_segment_return': 'takes windows as samples; in one it is adaptive_lambda_return',
    'information_gain': 'needs a task with an answer of one token',
    'decoupled_zscore': 'needs several rewards; with one it is a batch z-score of a group z-score',
}
_NONE = dict(name='none')
_REST = dict(shape={}, filter={}, old='sampler', ratio=_NONE, surrogate=dict(name='reinforce'),
             kl=_NONE, kl_coef=0.0, entropy_coef=0.0, aggregate=dict(name='sequence_sum'),
             correction={}, gate={}, weigh={}, memory={}, auxiliary={}, critic=_NONE, branch=_NONE)


def method(name: str | Mapping[str, Any], layout: types.Layout, **returns) -> methods.Method:
  """The estimator `name` as a method with the plain policy gradient: sum over tokens, mean of rows.

  `trained ...` is the critic entry of that name; slots in place of a name are taken as they are.
  `returns` replaces arguments of the return; they may be traced.
  """
  spec = name
  if isinstance(name, str):
    trained = name.startswith('trained ')
    spec = CRITIC[name.removeprefix('trained ')] if trained else ESTIMATORS[name]
  return slots.method(_REST | spec | dict(returns=spec['returns'] | returns), layout)


def own(spec: Mapping[str, Any]) -> dict[str, Any]:
  """What credits in the method of a config, as slots of an estimator.

  Rewards as they are shaped, but for a penalty of the distance to the reference; no filter, gate,
  correction or memory, as these say which credit is used, and how much of it. Where the method's
  baseline is a running mean, that of the estimator is the exact value.

  Raises:
    ValueError: it needs what the episodes of an audit do not have; says what.
  """
  for slot in ('branch', 'chunk', 'returns', 'advantages'):
    chosen = spec[slot]['name']
    reason = LEFT_OUT['shared_prefix'] if slot == 'branch' and chosen != 'none' else (
        LEFT_OUT.get(chosen))
    if reason:
      raise ValueError(f'method.{slot}={chosen} {reason}')
  shape = {k: v for k, v in spec['shape'].items() if v['name'] != 'kl_in_reward'}
  return {k: spec[k] for k in ('chunk', 'returns', 'advantages')} | dict(shape=shape)


def families(names) -> dict[str, dict[str, dict]]:
  """Critic entries that are wanted, those that differ in lambda alone together.

  Args:
    names: estimators, such as 'exact critic, lambda 1'.

  Returns:
    An entry of each family -> entries in it -> arguments of the return that differ.
  """
  wanted = [n for n in CRITIC if any(name.endswith(' ' + n) for name in names)]
  plain = {f'critic, lambda {lam:g}': dict(lam=lam) for lam in LAMBDAS}
  ladder = {n: plain[n] for n in wanted if n in plain}
  made = {next(iter(ladder)): ladder} if ladder else {}
  return made | {n: {n: {}} for n in wanted if n not in plain}
