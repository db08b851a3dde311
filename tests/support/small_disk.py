"""A disk that is really full: a small tmpfs that only one child sees, in a mount namespace of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest


def small_disk(directory: Path, kibibytes: int) -> Sequence[str]:
    """The command under which a child sees a disk of that size at ``directory``, a quarter of it taken by ``ballast``.

    Skips the test where neither root nor user namespaces are to be had.
    """
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", _mount(kibibytes), str(directory)]
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        pytest.skip("a small disk needs unshare(1)")
    if tried.returncode != 0:
        pytest.skip(f"a small disk needs root, or user namespaces that may mount: {tried.stderr.strip()}")
    return command


def _mount(kibibytes: int) -> str:
    ballast = f'head -c {kibibytes * 256} /dev/zero > "$0/ballast"'
    return f'mount -t tmpfs -o size={kibibytes}k tmpfs "$0" && {ballast} && exec "$@"'
