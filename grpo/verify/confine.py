"""A process that gives up what it does not need, for good. Only the standard library."""

import ctypes
import resource

__all__ = ['confine']

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
  """struct sock_fprog."""
  _fields_ = [('length', ctypes.c_ushort), ('code', ctypes.c_void_p)]


def confine(limits: dict[str, int], code: bytes) -> None:
  """Lowers the limits of this process and loads the filter, for good. Raises OSError."""
  for name, value in limits.items():
    number = getattr(resource, name)
    hard = resource.getrlimit(number)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))
  buffer = ctypes.create_string_buffer(code, len(code))
  filters = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
  if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
    raise OSError(ctypes.get_errno(), 'no_new_privs')
  if _LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filters), 0, 0):
    raise OSError(ctypes.get_errno(), 'seccomp')
