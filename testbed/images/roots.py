"""Root file systems of Debian, from its packages."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testbed.cache import cache_directory
from testbed.node.commands import run

SUITE = "bookworm"
PYTHON = "3.11"
"""The version that the suite brings."""

_LEFT_OUT = ("dev/*", "proc/*", "sys/*", "run/*", "tmp/*", "var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*",
             "usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*")  # fmt: skip
_DEADLINE_SECONDS = 900.0


def root(packages: Sequence[str]) -> Path:
    """A layer with a minimal Debian and these packages, from the user's cache; made there once, which takes a minute.

    MILEPOST_DEBIAN_MIRROR names another source of packages than debootstrap's own. Needs root. Raises `ProcessFailed`.
    """
    names = ",".join(sorted(packages))
    made = cache_directory("images") / f"{SUITE}-{hashlib.sha256(names.encode()).hexdigest()[:12]}.tar"
    if made.exists():
        return made
    work = Path(tempfile.mkdtemp(prefix=".root-", dir=made.parent))
    try:
        tree, layer = work / "root", work / "layer.tar"
        mirror = os.environ.get("MILEPOST_DEBIAN_MIRROR")
        options = ["--variant=minbase", "--force-check-gpg", f"--include={names}"]  # its packages run scripts as root
        run(["debootstrap", *options, SUITE, tree, *([mirror] if mirror else [])], deadline=_DEADLINE_SECONDS)
        archive(tree, layer, _LEFT_OUT)
        layer.rename(made)  # whoever looks finds all of it or nothing
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return made


def archive(tree: Path, layer: Path, left_out: Sequence[str] = ()) -> Path:
    """Pack a directory as a layer, as if root owned all that this user owns; its path. Raises `ProcessFailed`."""
    unwanted = [f"--exclude=./{pattern}" for pattern in left_out]
    run(
        ["tar", "--create", "--file", layer, "--sort=name", "--numeric-owner", *unwanted, "--directory", tree, "."],
        deadline=_DEADLINE_SECONDS,
    )
    return layer
