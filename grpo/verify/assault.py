"""Runs the attacks of `attacks.py` against a sandbox and says what came of each."""

import dataclasses
import os
import pathlib
import socket
import tempfile
import time

from grpo.verify import attacks
from grpo.verify import code
from grpo.verify import sandbox

__all__ = ['Outcome', 'Report', 'run']

EVERY = 6  # attacks between two honest programs


@dataclasses.dataclass(frozen=True)
class Outcome:
  """Of one attack: whether it earned reward, what came of it, and its wall time."""
  name: str
  earned: bool
  reason: str
  seconds: float


@dataclasses.dataclass(frozen=True)
class Report:
  """Of all of them, run as one batch with honest programs between them.

  harm: what was found changed outside the sandbox, empty if nothing.
  honest: share of the honest programs that earned their reward.
  seconds: of the batch; `bound` is what the limits allow.
  """
  outcomes: tuple[Outcome, ...]
  harm: tuple[str, ...]
  honest: float
  seconds: float
  bound: float


def run(box: sandbox.Sandbox, workers: int = 2) -> Report:
  """All attacks, then a look at what they could have touched."""
  with tempfile.TemporaryDirectory() as folder, socket.create_server(('127.0.0.1', 0)) as server:
    server.setblocking(False)
    canary = pathlib.Path(folder, 'canary')
    canary.write_text('alive')
    programs = attacks.programs(server.getsockname()[1], os.getpid(), str(canary))
    names, sources = [], []
    for i, (name, source) in enumerate(programs.items()):
      if i % EVERY == 0:
        names.append('honest')
        sources.append(attacks.HONEST)
      names.append(name)
      sources.append(source)
    tests = attacks.tests()
    start = time.monotonic()
    graded = code.grade(box, [code.Job(source, 'f', tests) for source in sources], workers)
    seconds = time.monotonic() - start
    harm = []
    if not canary.is_file() or canary.read_text() != 'alive':
      harm.append('a file was changed')
    if os.listdir(folder) != ['canary']:
      harm.append('a file was made')
    try:
      server.accept()
      harm.append('a connection was made')
    except BlockingIOError:
      pass
  honest = [g.all for name, g in zip(names, graded) if name == 'honest']
  return Report(
      tuple(Outcome(name, g.all, g.reason, g.seconds)
            for name, g in zip(names, graded) if name != 'honest'),
      tuple(harm), sum(honest) / len(honest), seconds,
      -(-len(sources) // workers) * box.limits.seconds)
