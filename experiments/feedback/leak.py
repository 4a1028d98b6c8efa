"""How much credit falls on turns that decide nothing, and how clear it is on those that do.

  python -m experiments.feedback.leak        writes leakage.csv beside this file; seconds

A policy that is right with a known probability on every turn, independently, plays groups by the
rule of the task; the slots of each arm credit them, and the exact values of `study/oracle.py` stand
for a critic that has learned its task. The slots and the groups are those of training, so credit is
too; only the policy is made up.
"""

import csv
import dataclasses
import io
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

from experiments.feedback import sweep
from grpo import build
from grpo import types
from grpo.objective import method as methods
from grpo.study import catalogue
from grpo.study import chains
from grpo.study import oracle
from grpo.tasks import horizon
from scripts import cells

HERE = pathlib.Path(__file__).resolve().parent
RIGHT, ACTIONS, PROMPTS, SEED = 0.75, 4, 4096, 0


def play(order: int, prompts: int):
  """Groups of the size of training: (rollout, exact values [P,G,T], right [P,G,T]); NumPy draws."""
  T, K = sweep.TURNS, sweep.DECISIVE
  group = sweep.overrides('whole', 'small')['sample.group']
  rng = np.random.default_rng(SEED)
  right_PGT = rng.random((prompts, group, T)) < RIGHT
  cue_PGT = rng.integers(ACTIONS, size=right_PGT.shape)
  cue_PGT[..., 0] = cue_PGT[:, :1, 0]  # samples of a prompt share the first one alone
  odd_PG, damage, rewards = np.zeros((prompts, group), bool), [], []
  for turn in range(T):
    damage.append(odd_PG * horizon.HURT)
    number = [t for t in range(T) if t * K % T < K].index(turn) + 1 if turn * K % T < K else 0
    odd_PG = odd_PG ^ (~right_PGT[..., turn] & (number > 0))
    ends = number > 0 and number % order == 0
    rewards.append(ends * ~odd_PG * order / K)
    odd_PG = odd_PG & (not ends)
  damage_PGT = np.stack(damage, axis=-1)
  state = horizon.State(None, jnp.asarray(cue_PGT), 0, jnp.asarray(damage_PGT), 0, None)
  state_PGT = 1 + jnp.arange(T)[None, None] * 12 * ACTIONS + horizon.index(state, ACTIONS)
  mask_PGT = jnp.ones(right_PGT.shape, bool)
  played = chains.rollout(jnp.zeros(right_PGT.shape[:2]), state_PGT, mask_PGT)
  earned = jnp.asarray(np.stack(rewards, axis=-1), jnp.float32)
  played = dataclasses.replace(played, rewards=earned[:, :, None])
  knobs = dict(horizon=T, decisive=K, order=order, delay=0, visibility=0.0, undo=0.0, drift=0.0)
  exact = oracle.solve(knobs, oracle.mixture(ACTIONS, RIGHT), actions=ACTIONS, max_turns=T)
  return played, oracle.lookup(exact.V, state_PGT), right_PGT


def credit(arm: str, share: float, played, values_PGT) -> np.ndarray:
  """Advantages of an arm, [P,G,T], by the slots that its cells train with."""
  cell = next(c for c in sweep.cells('small') if c.arm == arm)
  spec = build.plain(cells.resolve(cell))['method']
  spec['shape']['late']['share'] = share
  method = catalogue.method(catalogue.own(spec), chains.layout(sweep.TURNS))
  blank_PG = jnp.zeros(values_PGT.shape[:2])
  run = jax.jit(lambda played, values_PGT: methods.credit(
      method, played, old_logp_PGT=types.stream(played.logp), values_PGT=values_PGT,
      last_PG=blank_PG).advantages_PGT)
  return np.asarray(run(played, values_PGT))


def rows(prompts: int = PROMPTS) -> list[dict]:
  """One row for each delay, order and arm.

  leakage is the share of |credit| on turns that do not decide. signal is the sum over deciding
  turns of the difference in mean credit between right and wrong actions, over the root of the sum
  over all turns of the variance of credit given the action: what a step gains over what it is
  shaken by, for weights that all turns share; `relative` is it over that of `whole`.
  """
  T, K, made = sweep.TURNS, sweep.DECISIVE, []
  decides_T = np.array([t * K % T < K for t in range(T)])
  for order in sweep.ORDERS:
    played, values_PGT, right_PGT = play(order, prompts)
    for delay, share in sweep.DELAYS.items():
      for arm in sweep.ARMS:
        a_PGT = credit(arm, share, played, values_PGT).astype(np.float64)
        off = np.abs(a_PGT[..., ~decides_T]).sum() / np.abs(a_PGT).sum()
        gain, noise = 0.0, 0.0
        for t in range(T):
          hit, miss = (a_PGT[..., t][right_PGT[..., t] == side] for side in (True, False))
          gain += (hit.mean() - miss.mean()) * decides_T[t]
          noise += RIGHT * hit.var() + (1 - RIGHT) * miss.var()
        made.append(dict(order=order, delay=delay, arm=arm, leakage=round(float(off), 3),
                         signal=round(float(gain / np.sqrt(noise)), 3)))
  for row in made:
    base = next(r for r in made if (r['order'], r['delay'], r['arm'])
                == (row['order'], row['delay'], sweep.BASE))
    row['relative'] = round(row['signal'] / base['signal'], 2)
  return made


def main():
  made, text = rows(), io.StringIO()
  writer = csv.DictWriter(text, list(made[0]), lineterminator='\n')
  writer.writeheader()
  writer.writerows(made)
  cells.write(HERE / 'leakage.csv', text.getvalue())
  print(text.getvalue())


if __name__ == '__main__':
  main()
