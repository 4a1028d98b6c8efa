"""One checking process: `python -m grpo.verify.worker kind megabytes alarm filter`.

Started by `workers.py`. It reads requests from its standard input and answers on its standard
output, one frame each. A request is a pickle of ours: (function, arguments) with a function of
CHECKS. An answer is JSON. When it has loaded what the first request needs it says b'ready' and
gives up, for good, memory beyond its limit and every system call that checking does not need.
"""

import json
import os
import pickle
import signal
import sys

from grpo.verify import frames

LIMIT = 1 << 24


def _load_math():
  import math_verify

  # Both limits off: they are alarm signals. Ours is the kill of this process, by the clock outside.
  def parse(text):
    return [x for x in math_verify.parse(text, fallback_mode='no_fallback', parsing_timeout=None)
            if not isinstance(x, str)]

  def read(reference):
    return bool(parse(reference))

  def compare(reference, answer):
    want = parse(reference)
    if not want:
      return 'unreadable'
    got = parse(answer)
    if not got:
      return 'no answer'
    return 'right' if math_verify.verify(gold=want, target=got, timeout_seconds=None) else 'wrong'

  compare('$1$', '$\\frac{1}{2}$')  # what is imported late is imported now
  return dict(read=read, compare=compare)


def _load_gym():
  import reasoning_gym
  made = {}

  def check(family, options, answer, entry):
    key = (family, repr(options))
    if key not in made:
      made[key] = reasoning_gym.create_dataset(family, size=1, seed=0, **options)
    return float(made[key].score_answer(answer, entry))

  check('chain_sum', {}, '1', dict(answer='1', metadata={}))
  return dict(check=check)


def _load_plain():
  """For tests of the pool: functions that misbehave."""
  import time

  def fail(text):
    raise ValueError(text)

  return dict(echo=lambda x: x, sleep=time.sleep, fail=fail, end=lambda: os._exit(1),
              fill=lambda n: len(bytearray(n)), write=lambda path: open(path, 'w').close())


CHECKS = dict(math=_load_math, gym=_load_gym, plain=_load_plain)


def main(kind: str, megabytes: int, alarm: int, code: bytes) -> None:
  """Serves until its input ends. `alarm` seconds into a check the kernel ends this process: by then
  whoever would have killed it is gone."""
  source, target = os.dup(0), os.dup(1)
  os.dup2(os.open(os.devnull, os.O_RDWR), 0)
  os.dup2(0, 1)  # what a library prints must not be read as an answer
  checks = CHECKS[kind]()
  if code:
    from grpo.verify import confine  # it needs Linux
    confine.confine(dict(RLIMIT_AS=megabytes << 20, RLIMIT_FSIZE=0, RLIMIT_CORE=0), code)
  frames.write(target, b'ready')
  while True:
    try:
      name, args = pickle.loads(frames.read(source, LIMIT))
    except frames.Closed:
      return
    signal.alarm(alarm)
    try:
      answer = dict(value=checks[name](*args))
    except Exception as error:
      answer = dict(error=f'{type(error).__name__}: {error}'[:200])
    signal.alarm(0)
    frames.write(target, json.dumps(answer).encode())


if __name__ == '__main__':
  main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), bytes.fromhex(sys.argv[4]))
