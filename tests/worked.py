"""Worked examples of credit for agents (golden_agents.json), and how tests shape them.

As in golden.py: the numbers come from the papers' formulas, and change only when one was wrong.
"""

import dataclasses
import json
import pathlib

import numpy as np

from tests import rollouts

GOLDEN = json.loads((pathlib.Path(__file__).parent / 'golden_agents.json').read_text())


def case(name):
  return GOLDEN[name]['inputs'], GOLDEN[name]['expected']


def context(valid, **facts):
  """Context with some facts by chunk."""
  return dataclasses.replace(rollouts.context(valid), **facts)


def ragged(rows, fill=0.0):
  """Rows of unequal length as [1,G,K], and where they are."""
  width = max(map(len, rows))
  valid = np.array([[k < len(row) for k in range(width)] for row in rows])
  return np.array([[*row, *[fill] * (width - len(row))] for row in rows])[None], valid[None]


def split(x, label):
  """A flat list to rows by label, in order."""
  return [[a for a, b in zip(x, label, strict=True) if b == name] for name in dict.fromkeys(label)]


def numbered(names):
  return [sorted(set(names)).index(name) for name in names]
