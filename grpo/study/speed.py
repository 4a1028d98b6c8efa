"""Times the real training step on one piece of work, and its parts compiled alone.

`measure` returns what a line of scripts/bench.py says. All times are of programs that are already
compiled, with the device synchronised after each call.
"""

from collections.abc import Callable
import dataclasses
import importlib.metadata
import os
import statistics
import time

import jax
import jax.numpy as jnp

from grpo import build
from grpo import keys
from grpo import tasks
from grpo.learn import loop
from grpo.learn import step as steps
from grpo.models import scoring
from grpo.models import transformer
from grpo.study import machine
from grpo.study import work as works

__all__ = ['measure', 'overhead', 'parts', 'limits', 'TASKS']

AXIS = 'seeds'
# Tasks whose own speed is measured: each at its default sizes, and long or large ones.
TASKS = (*((name, {}) for name in tasks.__all__), ('horizon', dict(max_turns=256)),
         ('line', dict(max_turns=64)), ('keychain', dict(max_doors=10)),
         ('sokoban', dict(size=6, max_boxes=2, max_depth=24)))


def parts(config, work: works.Work) -> build.Parts:
  """Parts of a training step on `work`; what it leaves open comes from `config`."""
  overrides = {'sample.prompts': work.prompts, 'sample.group': work.group, 'sample.lag': work.lag,
               'sample.temperature': 1.0, 'train.micro': work.micro, 'train.minibatches': 1,
               'train.epochs': 1}
  if work.delay != 'constant':
    overrides |= {'sample.delay': dict(name=work.delay, sigma=1.0)}
  if work.ref:
    overrides |= {'method.kl': dict(name='k3'), 'method.kl_coef': 0.04}
  return dataclasses.replace(
      build.parts(config, overrides), task=works.task(work), layout=works.layout(work), knobs={},
      policy=transformer.policy(works.shape(work)))


def limits(seconds: float = 1.0) -> dict[str, float]:
  """Rates of this machine, the best of `seconds` of repeats each."""
  return dict(matmul_gflops=machine.matmul_gflops(seconds=seconds),
              bandwidth_gb_s=machine.bandwidth_gb_s(seconds=seconds))


class _Programs:
  """The step and its parts, mapped over seeds and not yet compiled."""

  def __init__(self, made: build.Parts):
    over = lambda function: jax.vmap(function, axis_name=AXIS)
    self.initial = jax.jit(over(lambda key: steps.initial(made, key)))
    self.step = jax.jit(over(lambda state: steps.train(made, state, AXIS)), donate_argnums=0)
    self.generate = jax.jit(over(
        lambda params, key, step: steps.sample(made, params, key, step, AXIS)))
    self.score = jax.jit(over(
        lambda params, rollout: scoring.logps(made.policy, params, rollout, made.layout, 1.0)))


def _timed(call: Callable):
  start = time.perf_counter()
  out = jax.block_until_ready(call())
  return out, time.perf_counter() - start


def _median(rows: list[dict], name: str) -> float:
  return statistics.median(row[name] for row in rows)


def measure(config, work: works.Work, repeats: int = 5, rates: dict[str, float] | None = None,
            alone: bool = True) -> dict:
  """Times `repeats` steps after a first one.

  Args:
    config: fields that the work leaves open, such as the optimiser.
    work: the work.
    repeats: timed steps.
    rates: from `limits`; None measures them at the end, so that they delay no first step.
    alone: also times sampling and reference scoring, compiled alone.

  Returns:
    dict: seconds, tokens a second, memory in MiB, and shares of the least possible time.
  """
  made = parts(config, work)
  programs = _Programs(made)
  roots = jnp.stack([keys.root(seed) for seed in range(work.seeds)])
  state = jax.block_until_ready(programs.initial(roots))
  step, compile_s = _timed(lambda: programs.step.lower(state).compile())
  (state, metrics), first_s = _timed(lambda: step(state))
  first = machine.process_age()
  step_rss = machine.peak_rss_mib()

  if alone:
    generate = programs.generate.lower(state.params, state.key, state.step).compile()
    rollout = jax.block_until_ready(generate(state.params, state.key, state.step))
    if work.ref:
      score = programs.score.lower(state.params, rollout).compile()
      jax.block_until_ready(score(state.params, rollout))

  rows, share = [], machine.Share()
  for _ in range(repeats):
    share.take()
    (state, metrics), seconds = _timed(lambda: step(state))
    row = dict(step=seconds, foreign=share.take(), generate=0.0, score=0.0)
    if alone:
      rollout, row['generate'] = _timed(lambda: generate(state.params, state.key, state.step))
      if work.ref:
        _, row['score'] = _timed(lambda: score(state.params, rollout))
    rows.append(row)
  clean = [row for row in rows if row['foreign'] < machine.Share.CLEAN]
  used = clean if len(clean) >= 2 else rows
  rates = rates or limits()
  out = dict(
      n_steps=len(rows), n_clean=len(clean), foreign=_median(used, 'foreign'),
      cores=len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count(),
      step_s=_median(used, 'step'), step_min_s=min(row['step'] for row in used),
      step_max_s=max(row['step'] for row in used), compile_s=compile_s, first_step_s=first_s,
      start_to_first_step_s=first, peak_rss_mib=step_rss,
      finite=bool(jnp.all(state.bad_step < 0)), params=_size(state.params) // work.seeds)
  if alone:
    out |= _parts_of_step(work, used, rates)
  out['share_step'] = _floor(work, 'step', rates) / out['step_s']
  return out | rates | dict(versions={
      name: importlib.metadata.version(name) for name in ('jax', 'jaxlib', 'flax')})


def overhead(config, stretches: int = 8) -> dict:
  """What the trainer adds to its own compiled program: logging and metrics, nothing saved.

  Args:
    config: a config; its evaluation should be small, since it is work and not overhead.
    stretches: log points that are timed, after the first two.

  Returns:
    dict: seconds of a stretch of `log_every` steps, bare and inside the trainer, and their ratio.
  """
  c = build.plain(config)
  c['steps'] = c['log_every'] * (stretches + 2)
  programs = loop.Programs(c)
  state = programs.initial(jnp.stack([keys.root(0)]), None, ())
  state, *_ = jax.block_until_ready(programs.stretch(state, ()))

  def bare():
    out = state
    for _ in range(stretches):
      out, *_ = programs.stretch(out, ())
    return out

  _, seconds = _timed(bare)
  marks = []
  loop.run(c, seeds=[0], on_progress=lambda step, values: marks.append(time.perf_counter()))
  trainer = (marks[-2] - marks[0]) / (len(marks) - 2)   # the last log point waits for the end
  return dict(log_every=c['log_every'], bare_s=seconds / stretches, trainer_s=trainer,
              overhead=trainer / (seconds / stretches))


def _size(tree) -> int:
  return sum(x.size for x in jax.tree.leaves(tree))


def _parts_of_step(work, rows, rates) -> dict:
  """What is said of sampling, scoring and training apart from each other."""
  generate, score = _median(rows, 'generate'), _median(rows, 'score')
  train = max(_median(rows, 'step') - generate - score, 1e-9)
  trained = work.rows * (work.prompt + work.row_tokens)
  return dict(
      generate_s=generate, score_s=score, train_s=train,
      generated_tok_s=work.sampled / generate, trained_tok_s=trained / train,
      share_generate=_floor(work, 'generate', rates) / generate,
      share_train=_floor(work, 'train', rates) / train)


def _floor(work, part: str, rates) -> float:
  """Least seconds: FLOPs at the rate of a square product; sampling also has to read its cache."""
  costs = works.flops(work)
  if part == 'step':
    return sum(costs.values()) / (rates['matmul_gflops'] * 1e9)
  seconds = costs[part] / (rates['matmul_gflops'] * 1e9)
  if part == 'generate':
    seconds = max(seconds, works.bytes_read(work) / (rates['bandwidth_gb_s'] * 1e9))
  return seconds
