"""A disk that is really full: a small tmpfs that only one child sees, in a mount namespace of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def small_disk(directory: Path, kibibytes: int) -> Sequence[str] | None:
    """The command under which a child sees a disk of that size at ``directory``, a quarter of it taken by ``ballast``.

    None where neither root nor user namespaces that may mount are to be had: a test then lets room run out by a limit
    that needs no privilege.
    """
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", _mount(kibibytes), str(directory)]
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, timeout=30, check=False)
    except FileNotFoundError:
        return None
    return command if tried.returncode == 0 else None


@contextmanager
def lasting(command: Sequence[str]) -> Iterator[Sequence[str]]:
    """The command under which any number of children, one after the other, see the disk that `small_disk` named."""
    with subprocess.Popen([*command, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        keeper.stdin.write(b"\n")
        keeper.stdin.flush()
        keeper.stdout.readline()  # it is mounted
        yield ["nsenter", f"--target={keeper.pid}", "--user", "--mount", "--preserve-credentials", "--"]
        keeper.stdin.close()


def _mount(kibibytes: int) -> str:
    ballast = f'head -c {kibibytes * 256} /dev/zero > "$0/ballast"'
    return f'mount -t tmpfs -o size={kibibytes}k tmpfs "$0" && {ballast} && exec "$@"'
