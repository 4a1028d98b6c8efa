"""Where metrics are written: a JSONL file always, TensorBoard and Weights & Biases on request.

A sink takes records: dictionaries with `step`, perhaps `seed`, `axis` and `at`, and the metrics.
"""

import json
import os
import pathlib

from grpo.learn import metrics

__all__ = ['JsonlSink', 'TensorBoardSink', 'WandbSink', 'read']


def read(path: str | os.PathLike) -> list[dict]:
  """Records of a metrics file. A last line that a kill cut short is left out."""
  records, lines = [], pathlib.Path(path).read_text(encoding='utf-8').split('\n')
  for number, line in enumerate(lines[:-1], 1):
    try:
      records.append(json.loads(line))
    except ValueError as error:
      raise ValueError(f'{path}, line {number} is not JSON: {error}') from error
    if not isinstance(records[-1], dict) or 'step' not in records[-1]:
      raise ValueError(f'{path}, line {number} is no record of a step')
  return records


class JsonlSink:
  """One JSON object a line. A resumed file is that of a run that was never interrupted.

  On opening, records beyond the step resumed from (those of steps that are about to be repeated)
  are removed, into a new file that then takes the old one's name. `kept` holds the rest.
  """

  def __init__(self, path: str | os.PathLike, resume: int | None = None):
    """Opens the file.

    Args:
      path: the file; its folder is made.
      resume: the step of the checkpoint that the run resumes from; None to start afresh, which
        removes all records.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    self.kept = []
    if resume is not None and path.exists():
      self.kept = [r for r in read(path) if r['step'] <= resume]
    beside = path.with_name(path.name + '.new')
    with open(beside, 'w', encoding='utf-8') as f:
      f.writelines(_line(record) for record in self.kept)
      f.flush()
      os.fsync(f.fileno())
    os.replace(beside, path)
    self._file = open(path, 'a', buffering=1, encoding='utf-8')

  def write(self, record: dict) -> None:
    """Appends one line."""
    self._file.write(_line(record))

  def flush(self) -> None:
    """On disk on return."""
    self._file.flush()
    os.fsync(self._file.fileno())

  def close(self) -> None:
    """Flushes and closes the file."""
    if not self._file.closed:
      self.flush()
      self._file.close()


class TensorBoardSink:
  """Event files for TensorBoard, by the optional package tensorboardX."""

  def __init__(self, directory: str | os.PathLike, resume: int | None = None):
    """Opens the folder; `resume` as for JsonlSink."""
    try:
      import tensorboardX
    except ImportError as error:
      raise ValueError('logging to TensorBoard needs the package tensorboardX: '
                       'pip install tensorboardX') from error
    self._writer = tensorboardX.SummaryWriter(
        str(directory), purge_step=None if resume is None else resume + 1)

  def write(self, record: dict) -> None:
    """Adds one scalar a metric; numbers that are not finite are left out."""
    for name, value in _scalars(record).items():
      self._writer.add_scalar(name, value, record.get('at', record['step']))

  def flush(self) -> None:
    """Hands events to the file."""
    self._writer.flush()

  def close(self) -> None:
    """Closes the file."""
    self._writer.close()


class WandbSink:
  """Weights & Biases, by the optional package wandb. Offline unless told otherwise."""

  def __init__(self, directory: str | os.PathLike, *, project: str = 'grpo', mode: str = 'offline',
               config: dict | None = None):
    """Starts a run.

    Args:
      directory: folder of the run's files; it is made.
      project: name of the project.
      mode: 'offline' (files only, to be synchronised by hand), 'online' or 'disabled'.
      config: shown next to the run.
    """
    modes = ('offline', 'online', 'disabled')
    if mode not in modes:
      raise ValueError(f'wandb mode must be one of {", ".join(modes)}, got {mode!r}')
    try:
      import wandb
    except ImportError as error:
      raise ValueError('logging to Weights & Biases needs the package wandb: '
                       'pip install wandb') from error
    pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
    self._run = wandb.init(project=project, mode=mode, config=config, dir=str(directory))
    self._axes = set()

  def write(self, record: dict) -> None:
    """Logs one record. Its step goes as a metric: wandb's own counter drops what comes late."""
    axis, at = record.get('axis', 'step'), record.get('at', record['step'])
    values = _scalars(record)
    for name in values.keys() - self._axes:
      self._run.define_metric(name, step_metric=axis)
      self._axes.add(name)
    self._run.log(values | {axis: at})

  def flush(self) -> None:
    """Nothing to do: wandb writes in its own process."""

  def close(self) -> None:
    """Ends the run."""
    self._run.finish()


def _line(record):
  return json.dumps(record, allow_nan=False) + '\n'


def _scalars(record):
  """Finite metrics of a record; those of one seed carry its number in their name."""
  suffix = f'/seed_{record["seed"]}' if 'seed' in record else ''
  values = metrics.values_of(record)
  return {name + suffix: value for name, value in values.items() if value is not None}
