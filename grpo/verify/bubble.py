"""Full Python in a box: bubblewrap around a fork server, then limits and a seccomp filter.

The box has its own users, processes, network (none), IPC, host name and mounts. Its files are the C
library, this Python's own, and three of ours, all read-only; /proc, /dev, /tmp, /etc, homes, the
project and all installed packages are not there. A program costs a fork, some milliseconds.
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import itertools
import json
import math
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time

from grpo.verify import filters
from grpo.verify import frames
from grpo.verify import plain
from grpo.verify import probe
from grpo.verify import sandbox

__all__ = ['Bubble']

HERE = pathlib.Path(__file__).resolve().parent
FILES = ('__init__.py', 'confine.py', 'frames.py', 'plain.py', 'server.py')
NONCE = 8  # as in server.py
START = 30.0  # seconds until the server must answer, on a busy machine


def _binds() -> list[str]:
  """Arguments that make the file system: the C library, this Python, our files."""
  args, mask = [], []
  for folder in ('/usr/lib', '/usr/lib32', '/usr/lib64', '/lib', '/lib32', '/lib64'):
    if os.path.islink(folder):
      args += ['--symlink', os.readlink(folder), folder]
    elif os.path.isdir(folder):
      args += ['--ro-bind', folder, folder]
      mask += pathlib.Path(folder).glob('python*/dist-packages')
  library = pathlib.Path(sys.base_prefix, 'lib')
  if not str(library).startswith('/usr/lib'):
    args += ['--ro-bind', str(library), str(library)]
  for pattern in ('python*/site-packages', 'python*/dist-packages'):
    mask += library.glob(pattern)
  for folder in sorted({str(path) for path in mask if path.is_dir() and not path.is_symlink()}):
    args += ['--tmpfs', folder, '--remount-ro', folder]
  python = os.path.realpath(sys.executable)
  args += ['--ro-bind', python, python]
  args += ['--ro-bind', str(HERE.parent / '__init__.py'), '/app/grpo/__init__.py']
  for name in FILES:
    args += ['--ro-bind', str(HERE / name), f'/app/grpo/verify/{name}']
  return args


def command(bwrap: str, control: int) -> list[str]:
  """The command that starts the server, with its socket at the file descriptor `control`."""
  usage = subprocess.run([bwrap, '--help'], capture_output=True, text=True, check=False)
  nested = ['--disable-userns'] if '--disable-userns' in usage.stdout + usage.stderr else []
  return [
      bwrap, '--unshare-user', '--unshare-pid', '--unshare-net', '--unshare-ipc', '--unshare-uts',
      '--unshare-cgroup-try', *nested, '--uid', '65534', '--gid', '65534', '--hostname', 'box',
      '--cap-drop', 'ALL', '--die-with-parent', '--new-session', '--clearenv',
      '--setenv', 'PYTHONPATH', '/app', '--setenv', 'PYTHONHASHSEED', '0',
      '--setenv', 'LC_ALL', 'C.UTF-8',
      '--setenv', 'LD_LIBRARY_PATH', str(pathlib.Path(sys.base_prefix, 'lib')),
      *_binds(), '--remount-ro', '/', '--chdir', '/', '--',
      os.path.realpath(sys.executable), '-P', '-s', '-S', '-B', '/app/grpo/verify/server.py',
      str(control)]


class Bubble:
  """See `sandbox.Sandbox`. Raises Unsafe if the box cannot be made or does not hold."""

  name = 'bubblewrap'

  def __init__(self, limits: sandbox.Limits = sandbox.DEFAULT):
    self.limits = dataclasses.replace(limits, seconds=max(limits.seconds, probe.SECONDS))
    self._lock, self._numbers = threading.Lock(), itertools.count()
    self._process = self._control = None
    if not sys.platform.startswith('linux'):
      raise sandbox.Unsafe('bubblewrap runs on Linux only')
    self._bwrap = shutil.which('bwrap')
    if not self._bwrap:
      raise sandbox.Unsafe('bubblewrap is not installed: no bwrap in PATH (on Debian: apt-get '
                           'install bubblewrap)')
    try:
      self._filter = filters.compile_filter()
      self.ready()
      probe.check(self)
      self.limits = limits
      self._start()
    except (RuntimeError, OSError, sandbox.Failure) as error:
      self.close()
      raise sandbox.Unsafe(f'bubblewrap: {error}') from error

  def _start(self):
    """Starts bubblewrap and waits for its server. It dies with the thread that started it."""
    self._stop()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
      self._process = subprocess.Popen(
          command(self._bwrap, theirs.fileno()), pass_fds=[theirs.fileno()], env={},
          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    self._control = ours
    ours.settimeout(START)
    size = self.limits.megabytes << 20
    limits = dict(RLIMIT_CPU=math.ceil(self.limits.seconds) + 1, RLIMIT_AS=size, RLIMIT_DATA=size,
                  RLIMIT_STACK=min(size, 8 << 20), RLIMIT_FSIZE=0, RLIMIT_NOFILE=32,
                  RLIMIT_CORE=0, RLIMIT_NPROC=0, RLIMIT_MEMLOCK=0, RLIMIT_MSGQUEUE=0)
    try:
      self._order(do='setup', limits=limits, filter=self._filter.hex())
      if ours.recv(16) != b'ready':
        raise OSError('the server ended')
    except OSError as error:
      self._process.kill()
      said = self._process.communicate()[1].decode('utf-8', 'replace').strip().splitlines()
      self._stop()
      raise RuntimeError(f'does not start: {said[-1] if said else error}') from error

  def _stop(self):
    if self._control:
      self._control.close()  # the server ends, and with it all that is in its namespace
    if self._process:
      with contextlib.suppress(subprocess.TimeoutExpired):
        self._process.wait(1.0)
      self._process.kill()
      self._process.communicate()
    self._process = self._control = None

  def _order(self, *fds, **order):
    socket.send_fds(self._control, [json.dumps(order).encode()], fds)

  def _alive(self):
    """Whether the server answers; call it with the lock held."""
    try:
      self._order(do='ping')
      return self._control.recv(16) == b'pong'
    except (OSError, AttributeError):
      return False

  def ready(self) -> None:
    with self._lock:
      if not (self._process and self._alive()):
        self._start()

  def usage(self) -> float:
    with self._lock:
      self._order(do='usage')
      return float(self._control.recv(64))

  def close(self) -> None:
    with self._lock:
      self._stop()

  @contextlib.contextmanager
  def session(self, program: str, entry: str) -> Iterator[Callable[..., object]]:
    if len(program) > self.limits.program:
      raise sandbox.Failure('length', f'{len(program)} characters')
    deadline = time.monotonic() + self.limits.seconds
    number, calls = next(self._numbers), itertools.count(1)
    ours, theirs = socket.socketpair()
    with ours:
      ours.setblocking(False)
      with theirs, self._lock:
        try:
          self._order(theirs.fileno(), do='run', id=number)
        except (OSError, AttributeError) as error:
          raise sandbox.Failure('server', str(error)) from error

      def exchange(message, nonce):
        try:
          frames.write(ours.fileno(), message, deadline)
          answer = frames.read(ours.fileno(), plain.MAX_BYTES + NONCE + 1, deadline)
        except frames.Late as error:
          raise sandbox.Failure('time', f'{self.limits.seconds} s') from error
        except frames.Closed as error:
          with self._lock:
            alive = self._alive()
          raise sandbox.Failure('ended' if alive else 'server') from error
        kind, rest = answer[:1], answer[1 + NONCE:]
        if answer[1:1 + NONCE] != nonce or kind not in (b'v', b'e', b'n'):
          raise sandbox.Failure('ended', 'an answer to no question')
        if kind != b'v':
          raise sandbox.Failure('raised' if kind == b'e' else 'not plain',
                                rest.decode('utf-8', 'replace'))
        return rest

      def call(*args, **kwargs):
        if next(calls) > self.limits.calls:
          raise sandbox.Failure('calls', f'more than {self.limits.calls}')
        nonce = secrets.token_bytes(NONCE)
        answer = exchange(nonce + plain.encode([list(args), kwargs]), nonce)
        try:
          return plain.decode(answer)
        except plain.NotPlain as error:
          raise sandbox.Failure('not plain', str(error)) from error

      try:
        exchange(json.dumps([program, entry]).encode(), bytes(NONCE))
        yield call
      finally:
        with self._lock, contextlib.suppress(OSError, AttributeError):
          self._order(do='kill', id=number)
