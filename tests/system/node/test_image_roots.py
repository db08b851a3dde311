"""Root file systems: none is made of packages that nobody has signed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.server import ROOT

pytestmark = [pytest.mark.node, pytest.mark.timeout(60)]

_MAKE = "from testbed.images.roots import root; root(['python3'])"
_RELEASE = "Suite: stable\nCodename: bookworm\nComponents: main\nArchitectures: amd64 arm64\n"


def test_without_the_keys_nothing_is_installed(tmp_path: Path) -> None:
    """The machine's keys are hidden from a process with mounts of its own."""
    if os.geteuid() != 0:
        pytest.skip("debootstrap takes root")
    release = tmp_path / "mirror" / "dists" / "bookworm" / "Release"
    release.parent.mkdir(parents=True)
    release.write_text(_RELEASE)
    hidden = 'mount -t tmpfs tmpfs /usr/share/keyrings && exec "$@"'
    made = subprocess.run(
        ["unshare", "--mount", "sh", "-c", hidden, "sh", sys.executable, "-c", _MAKE],
        cwd=ROOT,
        env={**os.environ, "MILEPOST_CACHE": str(tmp_path), "MILEPOST_DEBIAN_MIRROR": f"file://{tmp_path}/mirror"},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert made.returncode != 0
    assert "Keyring-based check was requested" in made.stdout + made.stderr
