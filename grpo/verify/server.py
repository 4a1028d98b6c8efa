"""Inside the namespaces: forks a process for each program. Started by `bubble.py`, never imported.

The server itself is trusted and hears only from us, on a socket that no program has. It never sees
a program: a forked child closes everything but the socket it was handed, lowers its limits, loads
the seccomp filter, and only then reads the program from there. So a program finds neither another
program nor its answers in memory.

Orders (one packet each, JSON): setup {limits, filter}; run {id} with a socket; kill {id}; usage;
ping. A message to a child is the program first; then for each call eight random bytes and the
arguments. An answer starts with those eight bytes. A program can read them and answer in its own
name, but what it wrote before it was asked counts as no answer.
"""

import collections  # noqa: F401  loaded once, here, so that programs need not
import copy  # noqa: F401
import datetime  # noqa: F401
import functools  # noqa: F401
import gc
import hashlib  # noqa: F401
import heapq  # noqa: F401
import itertools  # noqa: F401
import json
import math  # noqa: F401
import os
import random
import re  # noqa: F401
import resource
import select
import signal
import socket
import string  # noqa: F401
import sys
import typing  # noqa: F401

from grpo.verify import confine
from grpo.verify import frames
from grpo.verify import plain

NONCE = 8


def serve_program(fd: int) -> None:
  """Runs the program that comes first, then calls its function as often as asked."""
  program, entry = json.loads(frames.read(fd, 1 << 24))
  nonce, request = bytes(NONCE), b''  # of the load, which is no call
  space = {'__name__': 'candidate'}
  function = None
  while True:
    try:
      if function is None:
        exec(compile(program, 'candidate', 'exec'), space)
        function = space[entry]
        answer = b'v' + nonce
      else:
        args, kwargs = plain.decode(request)
        answer = b'v' + nonce + plain.encode(function(*args, **kwargs))
    except plain.NotPlain as error:
      answer = b'n' + nonce + str(error)[:200].encode('utf-8', 'replace')
    except BaseException as error:
      answer = b'e' + nonce + f'{type(error).__name__}: {error}'[:200].encode('utf-8', 'replace')
    frames.write(fd, answer)
    if function is None:
      return
    request = frames.read(fd, plain.MAX_BYTES + NONCE)
    nonce, request = request[:NONCE], request[NONCE:]


def child(fd: int, setup: dict) -> None:
  """Never returns."""
  try:
    os.dup2(1, 2)  # the null device: our own standard error is a pipe that nobody empties
    os.dup2(fd, 3)
    os.closerange(4, 1 << 16)
    signal.set_wakeup_fd(-1)
    confine.confine(setup['limits'], bytes.fromhex(setup['filter']))
    random.seed(0)
    serve_program(3)
  except BaseException:
    pass
  finally:
    os._exit(0)


def main(control: socket.socket) -> None:
  """Obeys until the other side is closed."""
  setup, pids = None, {}
  gc.freeze()
  while True:
    select.select([control], [], [], 1.0 if pids else None)
    for key, pid in list(pids.items()):
      if os.waitpid(pid, os.WNOHANG)[0]:
        del pids[key]
    try:
      data, fds, _, _ = socket.recv_fds(control, 1 << 17, 1, socket.MSG_DONTWAIT)
    except BlockingIOError:
      continue
    if not data:
      return
    order = json.loads(data)
    if order['do'] == 'setup':
      setup = order
      control.send(b'ready')
    elif order['do'] == 'ping':
      control.send(b'pong')
    elif order['do'] == 'usage':
      used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
      control.send(str(sum(u.ru_utime + u.ru_stime for u in used)).encode())
    elif order['do'] == 'kill':
      if order['id'] in pids:  # not reaped, so the number is still its own
        os.kill(pids[order['id']], signal.SIGKILL)
    elif order['do'] == 'run':
      pid = os.fork()
      if not pid:
        child(fds[0], setup)
      pids[order['id']] = pid
      os.close(fds[0])


if __name__ == '__main__':
  main(socket.socket(fileno=int(sys.argv[1])))
