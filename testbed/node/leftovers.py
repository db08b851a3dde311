"""Finds and removes what a node leaves on the machine, also a node whose owner was killed: processes, mounts, control
groups, and files outside of its own directory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from testbed.commands import run
from testbed.node.processes import kill_all

CONTAINERS = "k8s.io"
"""containerd's namespace of the containers that a kubelet asks for, and the control group that holds theirs."""

_CGROUPS = Path("/sys/fs/cgroup")
_LOG_LINKS = Path("/var/log/containers")
_NETWORK_RESULTS = Path("/var/lib/cni/results")
_SHIM_SOCKET = re.compile(rb"unix://(/run/containerd/s/[0-9a-f]+)")


def remove_leftovers(network: Path, directory: Path) -> None:
    """Kill what lives in the network namespace ``network``, and remove what belongs to the node below ``directory``.

    Raises `ProcessFailed` when something cannot be killed. Idempotent.
    """
    kill_all(lambda: [network])  # from here on nobody makes another Pod
    kill_all(lambda: mounts(directory, "nsfs"))
    for file in (*_shim_sockets(directory), *_network_results(directory)):
        file.unlink(missing_ok=True)
    for mount in reversed(mounts(directory)):
        run(["umount", "--lazy", mount])
    for group in _control_groups(directory):
        with suppress(OSError):  # the parent group stays while other groups are in it
            group.rmdir()
            group.parent.rmdir()
    for link in _LOG_LINKS.glob("*.log"):
        if link.is_symlink() and Path(os.readlink(link)).is_relative_to(directory):
            link.unlink(missing_ok=True)


def mounts(directory: Path, kind: str | None = None) -> list[Path]:
    """Return the mount points below ``directory`` in the order of mounting; of one ``kind`` of file system, or all."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4]))
        if point.is_relative_to(directory) and kind in (None, after.split()[0]):
            found.append(point)
    return found


def _shim_sockets(directory: Path) -> Iterator[Path]:
    """Yield the sockets that containerd makes outside of ``directory``, by its own notes. No setting moves them."""
    for name in ("bootstrap.json", "address"):
        for note in directory.glob(f"containerd/state/io.containerd.runtime.v2.task/*/*/{name}"):
            for found in _SHIM_SOCKET.findall(note.read_bytes()):
                yield Path(os.fsdecode(found))


def _network_results(directory: Path) -> Iterator[Path]:
    """Yield the notes of the network plugins' library about the node's Pods. No setting moves them."""
    for note in _NETWORK_RESULTS.glob("*"):
        try:
            namespace = Path(json.loads(note.read_bytes())["netns"])
        except (OSError, ValueError, KeyError, TypeError):  # gone meanwhile, half written, or of another kind
            continue
        if namespace.is_relative_to(directory):
            yield note


def _control_groups(directory: Path) -> Iterator[Path]:
    """Yield the control groups of the node's containers, which the runtime has noted: one in each hierarchy."""
    for container in directory.glob(f"containerd/runc/{CONTAINERS}/*"):
        for place in (CONTAINERS, f"*/{CONTAINERS}"):
            yield from _CGROUPS.glob(f"{place}/{container.name}")
