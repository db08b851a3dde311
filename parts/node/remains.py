"""What a node is to the kernel: processes, mounts, control groups. All of it is found and removed, also that of a node
whose owner was killed.

Whatever a node starts lives in its network or in that of one of its Pods, and nobody else does. So a process is known
to be a node's by the namespace that it is in, and never by a name or a number that someone noted.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from parts.node.commands import run
from parts.process import ProcessFailed

_CGROUPS = Path("/sys/fs/cgroup")
_LOG_LINKS = Path("/var/log/containers")
_SHIM_SOCKET = re.compile(rb"unix://(/run/containerd/s/[0-9a-f]+)")
_DEADLINE_SECONDS = 30.0

Space = tuple[int, int]
"""A namespace: the device and the inode of the file that stands for it."""


def remove_remains(network: Path, directory: Path) -> None:
    """Kill and remove all that lives in the namespace ``network``, or is mounted or linked to below ``directory``.

    Raises `ProcessFailed` when something cannot be killed. Idempotent.
    """
    spaces = {space for file in (network, *_namespaces(directory)) if (space := _space(file)) is not None}
    groups = _kill_all(spaces)
    for socket in _shim_sockets(directory):
        socket.unlink(missing_ok=True)
    for mount in reversed(mounts(directory)):
        run(["umount", "--lazy", mount])
    for group in sorted(groups, reverse=True):
        with suppress(OSError):  # one that others are in as well stays
            group.rmdir()
            group.parent.rmdir()
    for link in _LOG_LINKS.glob("*.log"):
        if link.is_symlink() and Path(os.readlink(link)).is_relative_to(directory):
            link.unlink(missing_ok=True)


def inhabitants(spaces: Collection[Space]) -> list[int]:
    """The processes whose network is one of these."""
    return [
        int(process.name)
        for process in Path("/proc").iterdir()
        if process.name.isdigit() and _space(process / "ns" / "net") in spaces
    ]


def mounts(directory: Path, kind: str | None = None) -> list[Path]:
    """What is mounted below ``directory``, in the order in which it came; of one ``kind`` of file system, or of all."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4]))
        if point.is_relative_to(directory) and kind in (None, after.split()[0]):
            found.append(point)
    return found


def _namespaces(directory: Path) -> list[Path]:
    return mounts(directory, "nsfs")


def _space(file: Path) -> Space | None:
    try:
        status = os.stat(file)
    except OSError:  # gone meanwhile, or a process that has ended
        return None
    return status.st_dev, status.st_ino


def _kill_all(spaces: Collection[Space]) -> set[Path]:
    """Kill until nobody is left; the control groups that they were in and this process is not."""
    groups: set[Path] = set()
    end = time.monotonic() + _DEADLINE_SECONDS
    while left := inhabitants(spaces):
        for pid in left:
            groups.update(_control_groups(pid))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > end:
            raise ProcessFailed(f"processes outlive SIGKILL: {left}")
        time.sleep(0.05)
    return groups - set(_control_groups(os.getpid()))


def _control_groups(pid: int) -> Iterator[Path]:
    """Their directories (see cgroups(7)): one for each hierarchy, or the only one."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        # The second version of control groups has no name, and beside the first one a place of its own.
        for hierarchy in (controllers.removeprefix("name="),) if controllers else ("", "unified"):
            group = _CGROUPS / hierarchy / path.lstrip("/")
            if path != "/" and group.is_dir():
                yield group


def _shim_sockets(directory: Path) -> Iterator[Path]:
    """Sockets outside of ``directory``, with no setting for where they are, as containerd's own notes name them."""
    for name in ("bootstrap.json", "address"):
        for note in directory.glob(f"containerd/state/io.containerd.runtime.v2.task/*/*/{name}"):
            for found in _SHIM_SOCKET.findall(note.read_bytes()):
                yield Path(os.fsdecode(found))
