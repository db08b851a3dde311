"""A kubelet that keeps away from the machine's: in a mount namespace, with an empty directory where they would meet.

Whatever its root directory is, a kubelet removes all sockets in /var/lib/kubelet/device-plugins and puts its own there.
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
"""What stands before the kubelet's command."""


def share(directory: Path) -> None:
    """Let both sides see what is mounted below ``directory`` from now on, as Pods' volumes are.

    It is a mount itself then. Raises `ProcessFailed`.
    """
    run(["mount", "--bind", directory, directory])
    run(["mount", "--make-shared", directory])
