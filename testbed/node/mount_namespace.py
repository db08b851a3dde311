"""Keeps the node's kubelet away from one that the machine itself runs, by a mount namespace.

Whatever its root directory is, a kubelet removes all sockets in /var/lib/kubelet/device-plugins and puts its own there.
So the node's kubelet sees an empty directory in place of /var/lib/kubelet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from testbed.commands import run

_FIXED = "/var/lib/kubelet"
_HIDE = f"""
mkdir -p {_FIXED} &&
mount --make-private "$(findmnt --noheadings --output=TARGET --target={_FIXED})" &&
mount -t tmpfs tmpfs {_FIXED} &&
exec "$@"
"""
APART: Sequence[str] = ("unshare", "--mount", "--propagation=unchanged", "--", "sh", "-ec", _HIDE, "sh")
"""The beginning of the command that starts the kubelet."""


def share(directory: Path) -> None:
    """Let both sides of the mount namespace see what is mounted below ``directory`` from now on: the volumes of Pods.

    This makes ``directory`` itself a mount. Raises `ProcessFailed`.
    """
    run(["mount", "--bind", directory, directory])
    run(["mount", "--make-shared", directory])
