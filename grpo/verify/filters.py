"""The seccomp filter of untrusted code: the system calls that computing needs, and no others.

What is not listed fails with EPERM, so that a program sees an ordinary error. Not listed are, among
others: fork, clone (threads too: they would need it, and a function under test needs none), exec,
sockets, pipes, kill and other signals, ptrace and the memory of other processes, mount, chroot,
namespaces, unlink, rename, shared memory, locks of files, priorities and affinities. Files open for
reading only; limits can be read but not set.
"""

import os
import tempfile

__all__ = ['compile_filter']

PLAIN = """
read readv pread64 write writev close fstat newfstatat stat lstat statx lseek mmap mprotect munmap
mremap madvise brk rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack getdents64 getcwd readlink
readlinkat access faccessat faccessat2 futex futex_waitv getpid getppid gettid getuid geteuid getgid
getegid getgroups getresuid getresgid getpgrp clock_gettime clock_getres clock_nanosleep nanosleep
gettimeofday time getrandom exit exit_group getrusage times sysinfo uname sched_yield
sched_getaffinity poll ppoll select pselect6 restart_syscall getrlimit arch_prctl set_robust_list
set_tid_address rseq membarrier alarm setitimer
""".split()
TEMPORARY = 0o20000000  # of O_TMPFILE the bit that O_DIRECTORY lacks
WRITES = (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | TEMPORARY)
FCNTL = (1, 2, 3, 1030)         # F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC
IOCTL = (0x5401, 0x5413, 0x5451)  # TCGETS and TIOCGWINSZ: is it a terminal; FIOCLEX


def compile_filter() -> bytes:
  """The filter as a BPF program. Raises RuntimeError where it cannot be made."""
  try:
    import pyseccomp
  except (ImportError, OSError, RuntimeError) as error:
    raise RuntimeError(f'no seccomp filter: {error}; install pyseccomp and the library '
                       'libseccomp') from error
  rules = pyseccomp.SyscallFilter(pyseccomp.ERRNO(1))
  def allow(name, *args):
    try:
      rules.add_rule(pyseccomp.ALLOW, name, *args)
    except (OSError, ValueError):  # this machine has no such call, hence nobody can make it
      pass
  arg = pyseccomp.Arg
  for name in PLAIN:
    allow(name)
  allow('open', arg(1, pyseccomp.MASKED_EQ, WRITES, 0))
  allow('openat', arg(2, pyseccomp.MASKED_EQ, WRITES, 0))
  allow('prlimit64', arg(0, pyseccomp.EQ, 0), arg(2, pyseccomp.EQ, 0))
  for command in FCNTL:
    allow('fcntl', arg(1, pyseccomp.EQ, command))
  for command in IOCTL:
    allow('ioctl', arg(1, pyseccomp.EQ, command))
  # glibc tries clone3 first and falls back to clone only on ENOSYS; both end in an error.
  rules.add_rule(pyseccomp.ERRNO(38), 'clone3')
  with tempfile.TemporaryFile() as file:
    rules.export_bpf(file)
    file.seek(0)
    return file.read()
