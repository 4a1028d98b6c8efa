"""The audit of a run while it trains: how wrong is its credit now?

At each audited log point fresh episodes are played under the current weights, with random numbers
of their own that are the same at every point. Nothing of the run is touched: a run with audits has
the same bits as one without. Records are those of `judge.rows` (part 'episode' and 'turn') and of
`health.rows` (part 'critic' and 'critic turn'), with step and seed. Only the task `horizon` is
known exactly.
"""

from collections.abc import Mapping, Sequence
import math
from typing import Any

import jax
from matplotlib import figure as figures
import numpy as np

from grpo import build
from grpo import check
from grpo.study import audit
from grpo.study import catalogue
from grpo.study import frames
from grpo.study import health
from grpo.study import judge
from grpo.study import plots
from grpo.study import stats

__all__ = ['Live', 'of', 'figure', 'text', 'NEAR']

# What a method's own credit is held against: the group, its turns, and a critic that knows.
NEAR = ('group z-score (GRPO)', 'leave one out (RLOO)', 'turn to go, z-score', 'anchors (GiGPO)',
        'exact critic, lambda 1', 'exact critic, lambda 0.95')
_NEAR_TRAINED = ('trained critic, lambda 1', 'trained critic, lambda 0.95',
                 'trained critic, lambda 0')
# Fields that another value of makes another estimator, or other episodes.
_CREDIT = ('sample.temperature', 'method.shape.', 'method.chunk.', 'method.returns.',
           'method.advantages.')
_PANELS = (('step_cosine', 'cosine of one batch'), ('snr', 'SNR of the gradient'),
           ('sign', 'wrong sign'), ('noise', 'noise over signal'))


def of(config, seeds: Sequence[int], settings: Mapping[str, Sequence[float]] | None = None):
  """The audit that a config asks for, for `loop.run`; None if it asks for none.

  Raises:
    ValueError: the config cannot work, or its task has no exact values.
  """
  c = build.plain(config)
  return Live(c, seeds, settings) if c['audit']['every'] else None


class Live:
  """(step, policy parameters, critic parameters or None), seed axis first -> records.

  Attributes:
    note: what is not audited, and why; or empty.
  """

  def __init__(self, config, seeds: Sequence[int],
               settings: Mapping[str, Sequence[float]] | None = None):
    """Checks; nothing is compiled yet. The arguments are those of `loop.run`."""
    self._config, self._seeds, self._settings = build.plain(config), list(seeds), settings or {}
    check.check(self._config, self._settings, len(self._seeds))
    every = f'audit.every={self._config["audit"]["every"]}'
    try:
      audit.known(self._config)  # before a model is read from its file
      audit.check(build.parts(self._config))
    except ValueError as error:
      raise ValueError(f'{every}: {error}') from error
    devices = self._config['mesh']['data'] * self._config['mesh']['model']
    if devices > jax.local_device_count():
      raise ValueError(f'{every}: an audit reads the weights on one host, and this run is split '
                       f'over {devices} devices of several')
    self._auditors = {}
    self.note = ''
    try:
      catalogue.own(self._config['method'])
    except ValueError as error:
      self.note = f"the method's own credit is left out: {error}"

  def __call__(self, step: int, params, critic_params) -> list[dict[str, Any]]:
    """Records of all seeds, in their order."""
    out = []
    for i, seed in enumerate(self._seeds):
      knobs = {k.removeprefix('task.'): v[i] for k, v in self._settings.items()
               if k.startswith('task.')}
      auditor, parts = self._auditor(i)
      one = lambda tree, i=i: jax.tree.map(lambda x: x[i], tree)
      evidence = auditor.run(one(params), knobs, batches=self._config['audit']['batches'],
                             seed=seed, critic_params=one(critic_params))
      setting = {k: (parts.knobs | knobs)[k] for k in ('horizon', 'visibility')}
      found = judge.rows(evidence)
      found += [r | dict(part='critic turn' if 'turn' in r else 'critic')
                for r in health.rows(evidence)]
      out += [_plain(dict(step=step, seed=seed) | setting | row) for row in found]
    return out

  def _auditor(self, i):
    """Auditor and parts of a run; those that credit alike share them."""
    changed = {k: v[i] for k, v in sorted(self._settings.items())
               if k.startswith(_CREDIT)}
    key = tuple(changed.items())
    if key not in self._auditors:
      c, a = build.plain(self._config, changed), self._config['audit']
      parts = build.parts(c)
      only = () if a['estimators'] == 'all' else (
          NEAR + (_NEAR_TRAINED if parts.critic is not None else ()))
      audits = len(self._seeds) * (1 + c['steps'] // a['every'])
      self._auditors[key] = parts, audit.Auditor(
          parts, prompts=a['prompts'], group=a['group'], critic=parts.critic, only=only,
          own=None if self.note else catalogue.own(c['method']),
          rollouts=audits * a['batches'] * a['prompts'] * a['group'])
    parts, auditor = self._auditors[key]
    return auditor, parts


def _plain(row):
  """Numbers that JSON can hold: NaN is None."""
  number = lambda x: x.item() if hasattr(x, 'item') else x
  row = {k: number(v) for k, v in row.items()}
  return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}


def _interval(rows, key):
  """(point, low, high) of a measure: of one seed its own interval, else over seeds."""
  if len(rows) == 1:
    return tuple(math.nan if rows[0].get(k) is None else rows[0][k]
                 for k in (key, f'{key}_low', f'{key}_high'))
  values = [r[key] for r in rows if r[key] is not None]
  if not values:
    return (math.nan,) * 3
  if len(values) == 1:
    return values[0], math.nan, math.nan
  band = stats.bootstrap([np.array(values)])
  return band.point, band.low, band.high


def _lines(records, key, part, name=None):
  """(steps, point, low, high) of a measure over training; interquartile means over seeds."""
  chosen = frames.where(records, part=part, **({'estimator': name} if name else {}))
  steps = [step for step, in frames.unique(chosen, 'step')]
  return np.array([(s, *_interval(frames.where(chosen, step=s), key)) for s in steps]).T


def text(records: Sequence[Mapping[str, Any]]) -> str:
  """The last audit of a run: an estimator a line, means over seeds."""
  last = max(r['step'] for r in records)
  now = frames.where(records, step=last, part='episode')
  out = [f'step {last:g}, {len(frames.unique(now, "seed"))} seeds: success '
         f'{np.mean([r["success"] for r in now]):.2f}']
  out.append(f'{"":40}' + '  '.join(f'{k:>13}' for k, _ in _PANELS))
  for name, in frames.unique(now, 'estimator'):
    each = [_interval(frames.where(now, estimator=name), k) for k, _ in _PANELS]
    out.append(f'{name:40}' + '  '.join(
        f'{"-":>6}{"":7}' if math.isnan(p) else  # without a point there is no interval of it
        f'{p:6.2f} ±{(high - low) / 2:5.2f}'.replace('nan', '  -') for p, low, high in each))
  for r in frames.where(records, step=last, part='critic'):
    out.append(f'critic of seed {r["seed"]}: ' + ', '.join(
        f'{k} {r[k]:.2f}' for k in ('explained_value', 'error', 'rank', 'dead')
        if r[k] is not None))
  return '\n'.join(out)


@plots.styled
def figure(records: Sequence[Mapping[str, Any]]) -> figures.Figure:
  """Credit against training age, and the critic's health below it, if there is a critic."""
  critic = frames.where(records, part='critic')
  fig, axes = plots.new(3 if critic else 2, 2, height=1.9)
  known = [n for n, in frames.unique(frames.where(records, part='episode'), 'estimator')]
  names = [n for n in (audit.OWN, *NEAR, *_NEAR_TRAINED) if n in known and n != audit.TRUTH][:8]
  for ax, (key, label) in zip(axes[:2].ravel(), _PANELS, strict=True):
    for name, style in plots.looks(names).items():
      _band(ax, _lines(records, key, 'episode', name), name, style, judge.BOUNDS[key])
    ax.set_ylabel(label)
    plots.whole(ax)
    ax.set_xlabel('training step')
  if critic:
    for name, style in plots.looks(('explained_value', 'explained_return', 'rank')).items():
      _band(axes[2, 0], _lines(records, name, 'critic'), name, style, health.BOUNDS[name])
    axes[2, 0].set_ylim(-1, 1.05)
    axes[2, 0].set_ylabel('critic, share')
    axes[2, 0].legend(fontsize=5)
    _band(axes[2, 1], _lines(records, 'error', 'critic'), 'error', plots.looks(['error'])['error'],
          health.BOUNDS['error'])
    axes[2, 1].set_ylabel('error of the value')
    for ax in axes[2]:
      ax.set_xlabel('training step')
      plots.whole(ax)
  handles, labels = axes[0, 0].get_legend_handles_labels()
  fig.legend(handles, labels, loc='outside upper center', ncols=4, fontsize=6)
  return fig


def _band(ax, line, label, style, bounds):
  step, *band = line
  point, low, high = (np.clip(x, *bounds) for x in band)
  ax.plot(step, point, label=label, markevery=max(1, len(step) // 8), **style)
  ax.fill_between(step, low, high, color=style['color'], alpha=0.15, linewidth=0)
