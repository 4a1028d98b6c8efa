"""Experiments that are computed, without training: what scripts/figures.py does for them.

Such an experiment is a folder experiments/NAME with

  run.py   rows(size, progress) -> list of dicts of numbers and texts, one a row of results.csv.
           `progress(done, total)` may be called at any time, with counts of one kind.
  plot.py  figure(folder) -> a matplotlib figure, from results.csv in that folder

A file of results names its experiment, its size and a hash of the code that made it (that of
grpo/, configs/ and run.py). Those of a workdir count if all three are the same; committed ones, in
the folder of the experiment, if name and size are: whoever wants to know whether the code of today
still gives them asks for it (`--force`). Rows that were added to a committed file later have a code
of their own.
"""

import hashlib
import math
import os
import pathlib
from typing import Any

from grpo.learn import progress as progress_lib
from grpo.study import frames
from grpo.study import plots
from scripts import cells
from scripts import cli
from scripts import experiment

FILES = ('results.csv', 'figure.png')
IDENTITY = ('experiment', 'size', 'code')


def names() -> list[str]:
  """All experiments that are computed."""
  return sorted(p.parent.name for p in (cli.ROOT / 'experiments').glob('*/run.py'))


def part(name: str, kind: str) -> Any:
  """Module `run` or `plot` of an experiment. Raises UsageError if it is not there."""
  return experiment.module(name, kind)


def code_hash(name: str) -> str:
  """Twelve hex digits of the SHA-256 of all sources that results can depend on."""
  paths = sorted(p for room in ('grpo', 'configs') for p in (cli.ROOT / room).rglob('*.py'))
  digest = hashlib.sha256()
  for path in (*paths, cli.ROOT / 'experiments' / name / 'run.py'):
    digest.update(str(path.relative_to(cli.ROOT)).encode() + b'\0' + path.read_bytes() + b'\0')
  return digest.hexdigest()[:12]


def identity(path: pathlib.Path) -> tuple[str, str, str] | None:
  """(experiment, size, code) of a file of results; None if it is not there.

  The codes of rows that were made at different times stand side by side; they are nobody's.

  Raises:
    UsageError: it is something else than results of one computed experiment.
  """
  if not path.exists():
    return None
  try:
    found = [tuple(str(row[k]) for k in IDENTITY) for row in frames.read(path)]
  except (KeyError, OSError, ValueError) as error:
    raise cli.UsageError(f'{path} holds no results of a computed experiment '
                         f'({error}): move it away or choose another folder') from error
  if len({one[:2] for one in found}) != 1:
    raise cli.UsageError(f'{path} mixes results of several experiments: move it away')
  return *found[0][:2], ' '.join(dict.fromkeys(code for *_, code in found))


def check_rows(name: str, rows: Any) -> None:
  """Raises ValueError unless `rows` can be lines of results.csv."""
  if not isinstance(rows, list) or not rows:
    raise ValueError(f'experiments/{name}/run.py: rows() gave no rows')
  for i, row in enumerate(rows):
    for key, value in row.items():
      number = value.item() if hasattr(value, 'item') else value
      if key in (*IDENTITY, 'commit', 'versions'):
        raise ValueError(f'experiments/{name}/run.py: row {i}: column {key} is set by the command')
      if not isinstance(number, (str, int, float)) or (
          isinstance(number, float) and math.isinf(number)):
        raise ValueError(f'experiments/{name}/run.py: row {i}: {key} is {value!r}; it must be a '
                         'text or a number that is not infinite')


class _Progress:
  """progress(done, total) on one line; a new total is a new line."""

  def __init__(self, name: str):
    self._name, self._line, self._total = name, None, None

  def __call__(self, done: int, total: int) -> None:
    if total != self._total:
      self.close()
      self._line, self._total = progress_lib.Progress(total, unit=f'{self._name} part'), total
    self._line.update(done)

  def close(self) -> None:
    if self._line is not None:
      self._line.close()
    self._line = None


def compute(name: str, size: str, code: str) -> list[dict[str, Any]]:
  """Rows of results.csv, identity and provenance included."""
  from scripts import device  # JAX starts here
  device.prepare()
  module = part(name, 'run')
  line = _Progress(name)
  try:
    rows = module.rows(size, line)
  finally:
    line.close()
  check_rows(name, rows)
  head, tail = dict(experiment=name, size=size), dict(code=code) | cells.provenance()
  return [head | row | tail for row in rows]


def run(name: str, size: str, workdir: pathlib.Path, out: pathlib.Path, *, force: bool = False,
        committed: bool = True) -> int:
  """Computes what is missing and draws; returns the exit code.

  Args:
    name: of the experiment.
    size: smoke, small or full.
    workdir: where results are computed to.
    out: where results and figure go; may be the workdir.
    force: compute also what is there.
    committed: whether results that lie in `out` already will do, whatever code made them.
  """
  plot = part(name, 'plot')  # what cannot be drawn is refused before it is computed
  for folder, flag in ((workdir, 'workdir'), (out, 'out')):
    experiment.check_folder(folder, flag, name, size)
  code, path = code_hash(name), workdir / 'results.csv'
  apart = os.path.abspath(out) != os.path.abspath(workdir)
  held = identity(out / 'results.csv')
  if held and held[0] != name:
    raise cli.UsageError(f'{out} holds the experiment {held[0]}, not {name}: choose another folder')
  if not force and committed and apart and held and held[:2] == (name, size):
    changed = '' if held[2] == code else ', by other code than that of today'
    print(f'{name}: results of size {size} are in {out}{changed}; --force computes them again')
  else:
    found = identity(path)
    if found and found[0] != name:
      raise cli.UsageError(f'{workdir} holds the experiment {found[0]}, not {name}: choose another '
                           'folder')
    if force or found != (name, size, code):
      cells.write(path, frames.text(compute(name, size, code)))
    if apart:
      cells.write(out / 'results.csv', path.read_text(encoding='utf-8'))
  plots.save(plot.figure(out), out / 'figure.png')
  print(f'{name}: wrote {", ".join(FILES)} to {out}')
  return 0
