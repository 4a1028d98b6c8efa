"""Rows of CSV files: read with types, told apart by columns. Nothing here knows what they mean."""

from collections.abc import Mapping, Sequence
import csv
import io
import math
import pathlib
from typing import Any

__all__ = ['read', 'text', 'unique', 'where']

Row = Mapping[str, Any]
# Columns that hold names, also where a name looks like a number.
_TEXT = ('arm', 'task', 'setting', 'experiment', 'commit', 'versions', 'config_hash', 'code')


def _value(x):
  """A field as int, float or text; an empty field is NaN."""
  for kind in (int, float):
    try:
      return kind(x)
    except ValueError:
      pass
  return x if x else math.nan


def read(path: str | pathlib.Path) -> list[dict[str, Any]]:
  """Rows of a CSV file. Raises ValueError if it is missing, empty or damaged."""
  path = pathlib.Path(path)
  if not path.is_file():
    raise ValueError(f'no file {path}: run the sweep, or scripts.figures, first')
  try:
    with open(path, newline='', encoding='utf-8') as f:
      raw = list(csv.DictReader(f))
  except (csv.Error, UnicodeDecodeError) as error:
    raise ValueError(f'{path} is not a CSV file: {error}') from error
  for i, row in enumerate(raw, 1):
    if None in row or None in row.values():
      raise ValueError(f'{path}: row {i} has more or fewer fields than the header')
  if not raw:
    raise ValueError(f'no rows in {path}: no cell has finished')
  return [{k: v if k in _TEXT else _value(v) for k, v in row.items()} for row in raw]


def text(rows: Sequence[Row]) -> str:
  """Rows as the text of a CSV file; columns in order of appearance, NaN and what is missing empty.

  Floats are written with six significant digits: enough for a figure, and files that differ mean
  results that differ.
  """
  columns = list(dict.fromkeys(key for row in rows for key in row))
  out = io.StringIO()
  writer = csv.writer(out, lineterminator='\n')
  writer.writerow(columns)
  writer.writerows([_field(row.get(key, '')) for key in columns] for row in rows)
  return out.getvalue()


def _field(x):
  if isinstance(x, str):
    return x
  number = x.item() if hasattr(x, 'item') else x
  if isinstance(number, float):
    return '' if math.isnan(number) else f'{number:.6g}'
  return int(number)


def unique(rows: Sequence[Row], *keys: str) -> list[tuple]:
  """Distinct values of some columns, in order of appearance."""
  return list(dict.fromkeys(tuple(row[k] for k in keys) for row in rows))


def where(rows: Sequence[Row], **values) -> list[Row]:
  """Rows whose columns have these values; a tuple or list allows any of its members."""
  chosen = {k: v if isinstance(v, (tuple, list, set)) else (v,) for k, v in values.items()}
  return [row for row in rows if all(row.get(k) in v for k, v in chosen.items())]
