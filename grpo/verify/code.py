"""Unit tests as a verifier: which sandbox, which tests, and what a program earns.

A test is a function of ours that gets the candidate, calls it, and raises if what comes back is
wrong. It runs here, on plain data; only the candidate's body runs in the sandbox. Every test must
be seen to pass: one that did not run, because the program did not load or ended early, has failed.
"""

from collections.abc import Callable, Sequence
import concurrent.futures
import dataclasses
import random
import time
from typing import Any, TypeVar
import warnings

from grpo.verify import bubble
from grpo.verify import extract as extracts
from grpo.verify import monty
from grpo.verify import plain
from grpo.verify import sandbox
from grpo.verify import score

__all__ = ['Graded', 'Job', 'SANDBOXES', 'Verifier', 'case', 'choose', 'grade', 'split']

Test = Callable[[Callable[..., Any]], None]
T = TypeVar('T')
SANDBOXES = ('auto', 'bubblewrap', 'monty')


@dataclasses.dataclass(frozen=True)
class Job:
  """A program, the name of its function, and the tests of it."""
  program: str
  entry: str
  tests: tuple[Test, ...]


@dataclasses.dataclass(frozen=True)
class Graded:
  """`passed` has one bool a test; `reason` is 'right', or the first thing that went wrong."""
  passed: tuple[bool, ...]
  reason: str
  seconds: float = dataclasses.field(default=0.0, compare=False)  # of wall time

  @property
  def all(self) -> bool:
    """Whether there are tests and every one passed."""
    return bool(self.passed) and all(self.passed)


def choose(name: str = 'auto', limits: sandbox.Limits = sandbox.DEFAULT,
           workers: int | None = None) -> sandbox.Sandbox:
  """A sandbox that holds on this machine, tried now. The caller closes it.

  Args:
    name: 'bubblewrap' for all of Python, 'monty' for speed, or 'auto': the first of these two that
      holds, with a warning if it is the second.
    limits: of one program.
    workers: processes of monty.

  Raises sandbox.Unsafe with the reason of each if there is none. There is no fallback: a program of
  a model is never run without a box.
  """
  makers = dict(bubblewrap=lambda: bubble.Bubble(limits),
                monty=lambda: monty.Monty(limits, workers))
  if name not in SANDBOXES:
    raise ValueError(f'no sandbox {name!r}: known are {", ".join(SANDBOXES)}')
  reasons = []
  for key in makers if name == 'auto' else (name,):
    try:
      box = makers[key]()
      if reasons:
        warnings.warn(f'{key} in place of another sandbox: {"; ".join(reasons)}', stacklevel=2)
      return box
    except sandbox.Unsafe as error:
      reasons.append(str(error))
  which = 'sandbox' if name == 'auto' else name
  raise sandbox.Unsafe(f'no safe {which} on this machine, so no program is run: '
                       f'{"; ".join(reasons)}')


def case(*args: Any, returns: Any, tolerance: float = 0.0) -> Test:
  """The test that a call returns a value: equal, or for a number within `tolerance`."""
  def test(candidate):
    got = candidate(*args)
    near = (tolerance and isinstance(got, int | float) and not isinstance(got, bool)
            and abs(got - returns) <= tolerance)
    assert near or got == returns
  return test


def split(tests: Sequence[T], share: float, seed: int) -> tuple[tuple[T, ...], tuple[T, ...]]:
  """(shown, held out): `share` of the tests are held out, at least one, and one stays shown.

  The shown ones may stand in a prompt or be learned from over many steps; a program that knows
  their answers by heart fails the others. With fewer than two tests nothing is held out.
  """
  if not 0 <= share < 1:
    raise ValueError(f'share={share}: must be in [0, 1)')
  if not share or len(tests) < 2:
    return tuple(tests), ()
  count = min(max(1, round(share * len(tests))), len(tests) - 1)
  held = set(random.Random(seed).sample(range(len(tests)), count))
  return (tuple(t for i, t in enumerate(tests) if i not in held),
          tuple(t for i, t in enumerate(tests) if i in held))


def _grade_one(box, job):
  passed = []
  reason = ''
  start = time.monotonic()
  try:
    with box.session(job.program, job.entry) as call:
      for test in job.tests:
        failures = []
        def candidate(*args, **kwargs):
          try:
            return call(*args, **kwargs)
          except sandbox.Failure as failure:
            failures.append(failure)
            raise
        try:
          test(candidate)
          good = not failures  # also where the test caught what the candidate raised
        except plain.NotPlain:  # what the test passed on; that is no fault of a program
          raise
        except Exception:  # an assertion, or an operation that the answer does not bear
          good = False
        passed.append(good)
        if not good and not reason:
          reason = failures[0].kind if failures else 'wrong'
        if any(f.kind != 'raised' and f.kind != 'not plain' for f in failures):
          break  # the process is gone
  except sandbox.Failure as failure:
    reason = reason or failure.kind
  passed += [False] * (len(job.tests) - len(passed))
  return Graded(tuple(passed), reason or ('right' if job.tests else 'no tests'),
                time.monotonic() - start)


def grade(box: sandbox.Sandbox, jobs: Sequence[Job], workers: int = 2) -> list[Graded]:
  """All jobs, `workers` at a time, in their order.

  Takes at most ceil(jobs / workers) * limits.seconds, and little more. If the sandbox itself ends,
  the programs that were in it are run again, one at a time: one that ends it alone has failed.
  """
  box.ready()
  with concurrent.futures.ThreadPoolExecutor(max(1, workers)) as pool:
    graded = list(pool.map(lambda job: _grade_one(box, job), jobs))
  for i, job in enumerate(jobs):
    if graded[i].reason == 'server':
      box.ready()
      graded[i] = _grade_one(box, job)
  box.ready()
  return graded


@dataclasses.dataclass(frozen=True)
class Verifier:
  """(texts, references) -> Scores, where a reference is (entry, tests) or None.

  The program is the last block of Python in the text. It must pass every test.
  """
  box: sandbox.Sandbox
  workers: int = 2
  extract: Callable[[str], str | None] = extracts.code_block

  def __call__(self, texts: Sequence[str],
               references: Sequence[tuple[str, Sequence[Test]] | None]) -> list[score.Score]:
    scores, jobs = {}, {}
    for i, (text, reference) in enumerate(zip(texts, references, strict=True)):
      program = self.extract(text)
      if reference is None or not reference[1]:
        scores[i] = score.unscorable('no tests')
      elif program is None:
        scores[i] = score.wrong('no answer')
      else:
        jobs[i] = Job(program, reference[0], tuple(reference[1]))
    for i, graded in zip(jobs, grade(self.box, list(jobs.values()), self.workers)):
      scores[i] = score.RIGHT if graded.all else score.wrong(graded.reason)
    return [scores[i] for i in range(len(scores))]
