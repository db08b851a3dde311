"""Makes this process as like one on Windows as can be had elsewhere, for ``python -c`` programs of `test_windows`.

This is a fake, because no test here has a Windows: modules and names that Python has only on POSIX are gone, Windows'
own lock is played by `flock`, and a directory, or what is open to be read alone, cannot be made durable. What the
standard library and other packages did when they were imported, they did as on this system.
"""

from __future__ import annotations

import errno
import fcntl
import importlib
import os
import pkgutil
import shutil
import signal
import stat
import sys
import time
from pathlib import Path
from types import ModuleType

import milepost

POSIX_ONLY = (
    "milepost.cli.run",
    "milepost.supervise",
    "milepost.process_pipe",
    "milepost.served_acts",
    "milepost.state.processors.lookups",
)
"""What need not work on Windows, with all below it, as in `make types`."""

_MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
_NAMES = {
    os: "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK WNOHANG chown fchmod fchown fork forkpty geteuid getegid getgid "
    "getgroups getpgid getpgrp getsid getuid initgroups killpg lchown mkfifo nice openpty posix_spawn pread pwrite "
    "register_at_fork sched_getaffinity setpgid setsid setuid statvfs sysconf uname wait waitid",
    signal: "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 alarm "
    "pthread_kill pthread_sigmask setitimer sigwait",
    time: "CLOCK_BOOTTIME CLOCK_MONOTONIC clock_gettime tzset",
}


def modules() -> list[str]:
    """Return the names of the SDK's modules that are meant for Windows, but for those that need Spark."""
    found = [module.name for module in pkgutil.walk_packages(milepost.__path__, "milepost.", onerror=lambda _: None)]
    apart = (*POSIX_ONLY, "milepost.spark")
    return [name for name in found if not any(name == no or name.startswith(f"{no}.") for no in apart)]


def become_windows() -> list[str]:
    """Import what the SDK needs, then take away what Windows lacks, and forget the SDK; return `modules`."""
    names = modules()
    for name in names:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] == "milepost"]:
        del sys.modules[name]
    for name in _MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, lost in _NAMES.items():
        for name in lost.split():
            module.__dict__.pop(name, None)
    os.__dict__.update(open=_open, fsync=_fsync)
    shutil.__dict__["_use_fd_functions"] = False  # it opens directories where it can
    sys.modules["msvcrt"] = _msvcrt()
    sys.platform = "win32"
    return names


_os_open, _os_fsync = os.open, os.fsync
_getfl, _flock = fcntl.F_GETFL, fcntl.flock
_fcntl = fcntl.fcntl


def _open(path: str, flags: int, mode: int = 0o777) -> int:
    if Path(path).is_dir():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return _os_open(path, flags, mode)


def _fsync(descriptor: int) -> None:
    if _fcntl(descriptor, _getfl) & os.O_ACCMODE == os.O_RDONLY or stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    _os_fsync(descriptor)


def _msvcrt() -> ModuleType:
    def locking(descriptor: int, mode: int, count: int) -> None:
        assert (mode, count) == (2, 1)
        try:
            _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None

    played = ModuleType("msvcrt")
    played.__dict__.update(locking=locking, LK_NBLCK=2)
    return played
