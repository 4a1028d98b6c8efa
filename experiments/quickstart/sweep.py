"""GRPO, GRPO with the mask of SAO, PPO and SAO on short answers and on three horizons."""

from scripts import cells as sweep_cells

BASE = 'grpo'
SCORE = 'success_last'  # held-out success after the last step; fixed before the first run

ARMS = ('grpo', 'grpo_dis', 'ppo', 'sao')
HORIZONS = (2, 8, 32)   # turns; two of them decide, so the share that matters is 1, 1/4, 1/16
_SEEDS = dict(smoke=2, small=8, full=16)


def settings(size: str) -> list[dict]:
  """Task, name, horizon, overrides and relative cost of each setting."""
  horizons = HORIZONS[:2] if size == 'smoke' else HORIZONS
  return [dict(task='arithmetic', setting='one answer', horizon=1, overrides={}, cost=2.0)] + [
      dict(task='horizon', setting=f'{turns} turns', horizon=turns, cost=float(turns),
           overrides={'task.horizon': turns, 'task.decisive': 2, 'window.turns': turns})
      for turns in horizons]


def cells(size: str) -> list[sweep_cells.Cell]:
  """All arms in all settings; the seeds of an arm are those of every other arm."""
  return [sweep_cells.Cell('quickstart', arm, s['task'], s['setting'],
                     f'configs/{arm}.py:{size},{s["task"]}', s['overrides'],
                     tuple(range(_SEEDS[size])), horizon=s['horizon'],
                     cost=s['cost'] * (1.0 if arm.startswith('grpo') else 1.7))
          for s in settings(size) for arm in ARMS]
