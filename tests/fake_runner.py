"""A stand-in for training, so that the machinery of sweeps is tested in seconds."""

import os
import pathlib
import signal
import tempfile
import time

import numpy as np


def folder(test):
  """A folder that goes with the test."""
  made = tempfile.TemporaryDirectory()
  test.addCleanup(made.cleanup)
  return pathlib.Path(made.name)


def run(cell, workdir, on_progress):
  """Scores that depend on the cell alone. `overrides` of the cell may ask for trouble."""
  mode = cell.group
  once = pathlib.Path(workdir).parent.parent / f'once-{cell.arm}-{cell.setting}'
  if mode == 'raise':
    raise RuntimeError('the loss\nis not finite')
  if mode == 'die':
    os.kill(os.getpid(), signal.SIGKILL)
  if mode == 'nan':
    return result(cell) | {'curve/success': np.full((len(cell.seeds), 3), np.nan)}
  if mode == 'slow' and not once.exists():
    once.touch()
    for step in range(1, 400):
      on_progress(step, 400)
      time.sleep(0.1)
  for step in (1, 2, 3):
    on_progress(step, 3)
    time.sleep(0.2 if mode == 'pause' else 0.02)
  with open(pathlib.Path(workdir).parent.parent / 'log', 'a') as f:
    f.write(f'{cell.arm} {cell.setting} {os.getpid()}\n')
  return result(cell)


def hang(cell, workdir, on_progress):
  """A cell that is still at work when its test has seen enough."""
  for step in range(1, 400):
    on_progress(step, 400)
    time.sleep(0.1)


def result(cell):
  """E = 3 evaluations at steps 0, 10 and 20."""
  lift = dict(base=0.0, up=0.3, down=-0.3).get(cell.arm, 0.0)
  noise = np.array([np.random.default_rng([s, cell.horizon]).normal() for s in cell.seeds])
  curve = 0.5 + lift * np.array([0.0, 0.5, 1.0]) + 0.02 * noise[:, None]
  n = len(cell.seeds)
  return {'steps': [0, 10, 20], 'curve/success': curve,
          'rollouts': [1280] * n, 'tokens_sampled': [10_000] * n, 'tokens_trained': [10_000] * n,
          'policy_flops': [1e10] * n, 'critic_flops': [2e9 * (cell.arm == 'up')] * n}
