"""Messages over a socket or pipe: four bytes of length, then that many bytes.

A deadline is a time of `time.monotonic()`. Only the standard library: this file is also seen from
inside the sandbox.
"""

import os
import select
import struct
import time

__all__ = ['Closed', 'Late', 'read', 'write']

_HEAD = struct.Struct('!I')


class Closed(ConnectionError):
  """The other side is gone, or sent what is no message."""


class Late(TimeoutError):
  """The deadline passed."""


def _wait(fd, deadline, event):
  if deadline is None:
    return
  poll = select.poll()
  poll.register(fd, event)
  left = deadline - time.monotonic()
  if left <= 0 or not poll.poll(left * 1000):
    raise Late


def _exactly(fd, count, deadline):
  parts = []
  while count:
    _wait(fd, deadline, select.POLLIN)
    part = os.read(fd, min(count, 1 << 16))
    if not part:
      raise Closed
    parts.append(part)
    count -= len(part)
  return b''.join(parts)


def read(fd: int, limit: int, deadline: float | None = None) -> bytes:
  """One message. Raises Closed for one of more than `limit` bytes: nobody honest sends it."""
  try:
    length, = _HEAD.unpack(_exactly(fd, _HEAD.size, deadline))
    if length > limit:
      raise Closed
    return _exactly(fd, length, deadline)
  except OSError as error:
    if isinstance(error, Late | Closed):
      raise
    raise Closed from error


def write(fd: int, data: bytes, deadline: float | None = None) -> None:
  """Writes one message; with a deadline, `fd` must not block."""
  data = _HEAD.pack(len(data)) + data
  try:
    while data:
      _wait(fd, deadline, select.POLLOUT)
      try:
        data = data[os.write(fd, data):]
      except BlockingIOError:
        continue
  except OSError as error:
    if isinstance(error, Late | Closed):
      raise
    raise Closed from error
