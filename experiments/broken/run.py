"""The falsification set: what is known to be wrong must be named, what is right must pass."""

from experiments.broken import faults
from grpo.study import diagnose


def rows(size: str, progress) -> list[dict]:
  """One row for each fault that was named. All sizes are alike: this counts no seeds."""
  del size
  cases = [(name, fault, c) for name, fault, c in faults.broken()]
  cases += [(name, 'none', c) for name, c in faults.sound()]
  made = []
  for i, (name, fault, c) in enumerate(cases, 1):
    for row in diagnose.table([(name, c)]):
      made.append(dict(case=name, fault=fault, flagged=row['flagged'],
                       right=int(row['flagged'] == fault), evidence=row['evidence']))
    progress(i, len(cases))
  return made
