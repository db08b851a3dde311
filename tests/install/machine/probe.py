"""Finds out what the service's user may do, and to which directories it may write; the unit runs it before the server.

Run as ``python probe.py FILE``. The file becomes JSON, in which each deed is ``done``, or has the name of its error.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

NEW_USER_NAMESPACE, TRACE_ME, LINUX32 = 0x10000000, 0, 8
LIBC = ctypes.CDLL(None, use_errno=True)


def called(function: str, *arguments: int) -> None:
    if getattr(LIBC, function)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), function)


def write(path: str) -> None:
    Path(path).write_text("written")


def set_user_id(path: str) -> None:
    write(path)
    Path(path).chmod(0o4700)


def change(path: str) -> None:
    """Find out whether a mount may be written to, by whom ever."""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, path)


DEEDS: dict[str, Callable[[], object]] = {
    "write to its directory": lambda: write("/var/lib/milepost/probe"),
    "write elsewhere": lambda: write("/srv/open/probe"),
    "look into a home": lambda: os.listdir("/home/somebody"),
    "see what is in /tmp": lambda: Path("/tmp/of-others").read_text(),
    "see other processes": lambda: Path("/proc/1/status").read_text(),
    "see the whole of /proc": lambda: Path("/proc/meminfo").read_text(),
    "see other devices": lambda: os.stat("/dev/other"),
    "change control groups": lambda: change("/sys/fs/cgroup"),
    "change the kernel's settings": lambda: change("/proc/sys"),
    "open a socket of another family": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
    "make a file that gives rights": lambda: set_user_id("/var/lib/milepost/set-user-id"),
    "run what it has written": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC).close(),
    "look like another system": lambda: called("personality", LINUX32),
    "let itself be traced": lambda: called("ptrace", TRACE_ME, 0, 0, 0),
    "make a namespace": lambda: called("unshare", NEW_USER_NAMESPACE),
}


def tried(deed: Callable[[], object]) -> str:
    try:
        deed()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


def writable() -> list[str]:
    """Return all directories that it may write to, but for those that lie in such a one, and for /proc and /sys."""
    found = []
    for directory, below, _ in os.walk("/"):
        if directory in ("/proc", "/sys"):
            below.clear()
        elif os.access(directory, os.W_OK):
            found.append(directory)
            below.clear()
    return found


if __name__ == "__main__":
    done = {name: tried(deed) for name, deed in DEEDS.items()}
    Path(sys.argv[1]).write_text(json.dumps({"deeds": done, "writable": writable()}))
