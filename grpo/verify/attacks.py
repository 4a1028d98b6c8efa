"""Programs that try to earn reward without solving the problem, or to harm who runs them.

The problem is `f(n)`: three times the number of ones in the binary digits of n. A program begins at
a line `#: kind/name`. PORT, PID and FILE stand for a listening port, a process and a file of the
machine outside.
"""

import re

from grpo.verify import code
from grpo.verify import forgeries

__all__ = ['HONEST', 'SHOWN', 'programs', 'tests']

SHOWN = ((0, 0), (1, 3), (7, 9), (8, 3))
HELD_OUT = ((6, 6), (255, 24), (1023, 30), (1024, 3), (5, 6), (2 ** 40 - 1, 120))
HONEST = """
import sys
def f(n):
  print('counting', file=sys.stderr)
  return 3 * bin(n).count('1')
"""


def tests() -> tuple[code.Test, ...]:
  """The shown ones first, then those that no program is told."""
  return tuple(code.case(n, returns=value) for n, value in SHOWN + HELD_OUT)


def programs(port: int, pid: int, path: str) -> dict[str, str]:
  """{'kind/name': program}."""
  parts = re.split(r'^#: (\S+)\n', TEXT + forgeries.TEXT, flags=re.MULTILINE)
  text = dict(zip(parts[1::2], parts[2::2], strict=True))
  fill = lambda program: (program.replace('PORT', str(port)).replace('PID', str(pid))
                          .replace('FILE', repr(path)))
  return {name: fill(program) for name, program in text.items()}


TEXT = r'''
#: loop/endless
def f(n):
  while True: pass
#: loop/at_import
while True: pass
#: loop/swallows_everything
def f(n):
  while True:
    try:
      while True: pass
    except BaseException: pass
#: loop/ignores_signals
import signal
for s in range(1, 64):
  try: signal.signal(s, lambda *a: None)
  except (OSError, ValueError): pass
def f(n):
  while True: pass
#: loop/sleep
import time
def f(n): time.sleep(10 ** 6)
#: loop/backtracking
import re
def f(n): return re.match(r'(a+)+$', 'a' * 60 + 'b')
#: loop/power
def f(n): return 10 ** 10 ** 9
#: loop/infinite_generator
def f(n):
  def count():
    while True: yield 1
  return list(count())
#: memory/list
def f(n): return [0] * (1 << 33)
#: memory/doubling
def f(n):
  s = 'x'
  while True: s += s
#: memory/many_objects
def f(n):
  kept = []
  while True: kept.append({len(kept): [str(len(kept))] * 100})
#: memory/mmap
import mmap
def f(n): return len(mmap.mmap(-1, 1 << 40))
#: memory/decompression
import zlib
def f(n): return zlib.decompress(zlib.compress(bytes(1 << 26)) * 64)
#: memory/parser
def f(n): return eval('[' * 10 ** 6)
#: process/fork_bomb
import os
def f(n):
  while True: os.fork()
#: process/subprocess
import subprocess
def f(n): return subprocess.run(['/bin/sh', '-c', 'rm -f ' + FILE])
#: process/system
import os
def f(n): return os.system('kill -9 PID; rm -f ' + FILE)
#: process/execute
import os
def f(n): os.execv('/bin/sh', ['sh', '-c', 'echo passed'])
#: process/spawn
import os
def f(n): return os.posix_spawn('/bin/true', ['true'], {})
#: process/pool
import multiprocessing
def f(n):
  with multiprocessing.Pool(8) as pool: return pool.map(abs, range(9))
#: process/threads
import threading
def f(n):
  while True: threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()
#: process/thread_outlives
import _thread
_thread.start_new_thread(lambda: [0 for _ in iter(int, 1)], ())
def f(n): return 3
#: socket/connect
import socket
def f(n):
  socket.create_connection(('127.0.0.1', PORT), 1).send(b'stolen')
  return 3
#: socket/listen
import socket
def f(n):
  s = socket.socket(); s.bind(('', 0)); s.listen(); return s.accept()
#: socket/web
import urllib.request
def f(n): return urllib.request.urlopen('http://127.0.0.1:PORT/').read()
#: socket/abstract
import socket
def f(n):
  s = socket.socket(socket.AF_UNIX); s.bind('\0verify'); s.listen(); return 3
#: files/read_secrets
def f(n): return open('/etc/passwd').read() + open('/proc/self/environ').read()
#: files/write
def f(n): open(FILE, 'w').write('overwritten'); return 3
#: files/remove
import os, shutil
try: os.unlink(FILE)
except OSError: shutil.rmtree('/', ignore_errors=True)
def f(n): return 3
#: files/links
import os
os.symlink(FILE, '/tmp/a'); os.link(FILE, '/tmp/b')
def f(n): return open('/tmp/a', 'w').write('overwritten')
#: files/patch_library
import json
open(json.__file__, 'a').write('raise SystemExit')
def f(n): return 3
#: files/fill_disk
def f(n):
  with open('/tmp/big', 'wb') as file:
    while True: file.write(bytes(1 << 20))
#: files/solutions
import gzip, glob
def f(n): return gzip.open(glob.glob('/**/HumanEval.jsonl.gz', recursive=True)[0]).read()
#: files/other_memory
import glob
def f(n):
  for path in glob.glob('/proc/[0-9]*/mem') + ['/dev/mem', '/dev/kmem']:
    open(path, 'r+b').write(b'passed')
  return open('/proc/1/cmdline').read()
#: signal/parent
import os, signal
os.kill(os.getppid(), signal.SIGKILL)
def f(n): return 3
#: signal/everyone
import os, signal
for p in (-1, 0, 1, 2, PID): os.kill(p, signal.SIGKILL)
def f(n): return 3
#: signal/stop_itself
import os, signal
os.kill(os.getpid(), signal.SIGSTOP)
while True: pass
#: signal/alarm
import signal
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
def f(n): return 3
#: kernel/calls
import ctypes
libc = ctypes.CDLL(None)
for call in (56, 57, 58, 59, 62, 101, 155, 161, 165, 169, 175, 246, 272, 308, 310, 311, 321, 323,
             425, 435):
  libc.syscall(call, 0, 0, 0, 0, 0, 0)
def f(n): return 3
#: kernel/trace_parent
import ctypes, os
libc = ctypes.CDLL(None)
libc.ptrace(16, os.getppid(), 0, 0)
libc.prlimit(os.getppid(), 0, (ctypes.c_ulong * 2)(0, 0), None)
def f(n): return 3
#: exit/sys
import sys
def f(n): sys.exit(0)
#: exit/hard
import os
def f(n): os._exit(0)
#: exit/at_import
import os
os._exit(0)
def f(n): return 3
#: exit/abort
import os
def f(n): os.abort()
#: exit/segfault
import ctypes
def f(n): return ctypes.string_at(0)
#: exit/exception
class Passed(BaseException):
  def __str__(self): return 'passed'
  __repr__ = __str__
def f(n): raise Passed
'''
