"""Problems to train on: questions, their answers, which are held out, and how answers are graded.

The slot `task.problems` of the task `text`. A function reads or makes its problems and starts what
it needs to grade them; what is missing it says in one line, before any training. Which problems are
held out is decided here, from the problems alone, so that no seed or step of a run moves it.
"""

from collections.abc import Callable, Mapping, Sequence
import concurrent.futures
import dataclasses
import functools
import json
import pathlib
import random
from typing import Any

import numpy as np

from grpo.verify import code
from grpo.verify import exact
from grpo.verify import extract
from grpo.verify import gym as gyms
from grpo.verify import humaneval as humanevals
from grpo.verify import math_answers
from grpo.verify import numeric
from grpo.verify import sandbox as sandboxes
from grpo.verify import score

__all__ = ['gym', 'humaneval', 'rows']

VERIFIERS = ('exact', 'numeric', 'math')
READS = dict(whole=lambda text: text, number=lambda text: extract.final_number(text) or '')
Grades = tuple[np.ndarray, np.ndarray, np.ndarray]  # rewards f32, success f32, scored bool


@dataclasses.dataclass(frozen=True)
class Problems:
  """A table of problems.

  Attributes:
    questions: what the user says.
    answers: a right answer to each, as the scripted expert would write it.
    held: whether a problem is held out.
    grade: (texts, rows) -> Grades, in order; rows are places in the table. Called from one thread
      at a time, and deterministic.
    close: ends all processes.
  """
  questions: tuple[str, ...]
  answers: tuple[str, ...]
  held: tuple[bool, ...]
  grade: Callable[[Sequence[str], Sequence[int]], Grades]
  close: Callable[[], None] = lambda: None


def gym(*, family: str, size: int, held: int, seed: int = 0,
        options: Mapping[str, Any] | None = None, ask: str = '', read: str = 'whole',
        workers: int = 2, seconds: float = 5.0) -> Problems:
  """Problems of a family of reasoning-gym. Reward 1 for a full score, else 0.

  Of what is made, problems that are asked twice are kept once, and the last are held out. Where a
  problem is made from a template with named variables (gsm_symbolic), whole templates are: those of
  held-out problems are never trained on.

  Args:
    family: such as chain_sum or gsm_symbolic.
    size: problems to train on, about: fewer where a family has no more.
    held: held-out problems, likewise.
    seed: of the problems, not of a run.
    options: of the family.
    ask: what stands behind each question.
    read: 'whole', the marked answer or else the whole text, which most families compare letter by
      letter; or 'number', the marked answer or else the last number.
    workers, seconds: processes that check, and time for one check.
  """
  if read not in READS:
    raise ValueError(f'task.problems.read: allowed are {", ".join(READS)}; got {read!r}')
  if size < 1 or held < 1:
    raise ValueError(f'task.problems: size and held must be at least 1, got {size} and {held}')
  made = gyms.entries(family, size + held, seed, **(options or {}))
  made = list({entry['question']: entry for entry in made}.values())
  kinds = list(dict.fromkeys(map(_kind, made)))
  out = set(kinds[len(kinds) - round(len(kinds) * held / (size + held)):])
  verifier = gyms.Verifier(family, size=workers, seconds=seconds, **(options or {}))
  return Problems(
      questions=tuple(entry['question'] + ask for entry in made),
      answers=tuple(entry['answer'] for entry in made),
      held=tuple(_kind(entry) in out for entry in made),
      grade=lambda texts, at: _grade(verifier, made, list(map(READS[read], texts)), at),
      close=verifier.close)


def _kind(entry):
  """What two problems must not share if one is held out: the variables of a template, or all."""
  variables = entry['metadata'].get('variables')
  return tuple(sorted(variables)) if isinstance(variables, Mapping) else entry['question']


def rows(*, path: str, verifier: str = 'numeric', share: float = 0.2, seed: int = 0, ask: str = '',
         workers: int = 2, seconds: float = 5.0) -> Problems:
  """Problems of a file of the user's: one JSON object a line, with `question` and `answer`.

  Args:
    path: of the file.
    verifier: what compares with `answer`: exact, numeric or math (math-verify).
    share: of the questions that is held out.
    seed: of that choice.
    ask: what stands behind each question.
    workers, seconds: processes of math-verify, and time for one comparison.
  """
  if verifier not in VERIFIERS:
    raise ValueError(f'task.problems.verifier: allowed are {", ".join(VERIFIERS)}; got '
                     f'{verifier!r}')
  if not 0 < share < 1:
    raise ValueError(f'task.problems.share: must be above 0 and below 1, got {share}')
  table = _table(pathlib.Path(path))
  checker = math_answers.Verifier(workers, seconds) if verifier == 'math' else None
  plain = dict(exact=exact, numeric=numeric).get(verifier)
  read = checker.read if checker else plain.read
  close = checker.close if checker else lambda: None
  references = [row['answer'] for row in table]
  _, bad = score.readable(read, references)
  if bad:
    close()
    line, reason = next(iter(bad.items()))
    raise ValueError(f'{path}: {len(bad)} answers cannot be compared with by {verifier}; the first '
                     f'is in line {line + 1}: {reason}')
  questions = list(dict.fromkeys(row['question'] for row in table))
  random.Random(seed).shuffle(questions)
  out = set(questions[:max(1, round(share * len(questions)))])
  return Problems(
      questions=tuple(row['question'] + ask for row in table), answers=tuple(map(str, references)),
      held=tuple(row['question'] in out for row in table), close=close,
      grade=functools.partial(_grade, checker or score.each(plain.verify), references))


def _table(path):
  try:
    table = [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines() if line]
  except (OSError, ValueError) as error:
    raise ValueError(f'task.problems.path={path}: {error}') from error
  for i, row in enumerate(table, 1):
    if not isinstance(row, dict) or not isinstance(row.get('question'), str) or 'answer' not in row:
      raise ValueError(f'{path}, line {i}: needs an object with question and answer')
  return table


def _grade(verify, references, texts, at) -> Grades:
  """Grades of a verifier of Scores. Raises RuntimeError if most cannot be scored."""
  scores = verify(texts, [references[i] for i in at])
  score.require(scores)
  values, scored = score.values(scores)
  return values, values, scored


def humaneval(*, sandbox: str = 'auto', share: float = 0.25, hidden: float = 0.3, seed: int = 0,
              workers: int = 2, seconds: float = 3.0, ask: str = '') -> Problems:
  """The 164 problems of HumanEval, graded by their unit tests in a sandbox.

  The reward is 1 if the shown tests of a problem pass, success is 1 if all do. A program that
  learned the shown tests by heart earns reward and no success: watch the gap.

  Args:
    sandbox: auto, bubblewrap or monty; tried at start, and refused if it does not hold.
    share: of the problems that is held out.
    hidden: share of the tests of each problem that the reward does not know; 0 for none.
    seed: of both choices.
    workers, seconds: programs at a time, and time for one with all its tests.
    ask: what stands in front of each problem.
  """
  if not 0 < share < 1:
    raise ValueError(f'task.problems.share: must be above 0 and below 1, got {share}')
  problems = humanevals.problems()
  order = list(range(len(problems)))
  random.Random(seed).shuffle(order)
  out = set(order[:round(share * len(order))])
  tests = [code.split(humanevals.tests(p), hidden, seed) for p in problems]
  try:
    box = code.choose(sandbox, sandboxes.Limits(seconds=seconds), workers)
  except sandboxes.Unsafe as error:
    raise ValueError(str(error)) from error
  # Its processes end with the thread that starts them: a thread that stays.
  lane = concurrent.futures.ThreadPoolExecutor(1)

  def grade(texts, at):
    jobs = {}
    for i, (text, row) in enumerate(zip(texts, at, strict=True)):
      program = extract.code_block(text)
      if program is not None:
        jobs[i] = code.Job(program, problems[row].entry, sum(tests[row], ()))
    graded = lane.submit(code.grade, box, list(jobs.values()), workers).result()
    rewards, success = (np.zeros(len(texts), np.float32) for _ in range(2))
    for i, one in zip(jobs, graded, strict=True):
      rewards[i] = all(one.passed[:len(tests[at[i]][0])])  # the shown tests come first
      success[i] = one.all
    return rewards, success, np.ones(len(texts), bool)

  def close():
    box.close()
    lane.shutdown()

  fenced = lambda text: f'```python\n{text.strip()}\n```'
  return Problems(
      questions=tuple(ask + fenced(p.prompt) for p in problems),
      answers=tuple(fenced(p.prompt + p.solution) for p in problems),
      held=tuple(i in out for i in range(len(problems))), grade=grade, close=close)
