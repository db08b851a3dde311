"""Machines with a systemd of their own, and the wheels that are installed there, for the session."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from testbed.cache import cache_directory
from testbed.images.roots import PYTHON
from testbed.server import ROOT
from tests.install.machine.machine import SYSTEMD, Machine, own_cgroup
from tests.install.page import blocks
from tests.support.commands import output_of

PACKAGES = (
    "ca-certificates",
    "curl",
    "logrotate",
    "openssl",
    "python3",
    "python3-venv",
    "sudo",
    "systemd",
    "systemd-sysv",
)
CLONE = "/root/milepost"
"""Where the machine's root has the clone that the page begins with."""
NEXT = "0.1.999"
"""The version to upgrade to."""
VARIABLES = {"PIP_FIND_LINKS": f"{CLONE}/dist"}
SECONDS = 900.0

_MAKE = "import sys; from testbed.images.roots import root; print(root(sys.argv[1:]))"
_APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--")


@pytest.fixture(scope="session")
def layer() -> Path:
    """A Debian with systemd, as a tar file. Skips where there can be none, nor a machine."""
    if os.geteuid() != 0:
        pytest.skip("no machine with a systemd of its own: that takes root")
    try:
        cgroup = own_cgroup()
    except FileNotFoundError as absent:
        pytest.skip(f"no machine with a systemd of its own: {absent}")
    if not os.access(cgroup, os.W_OK):
        pytest.skip(f"no machine with a systemd of its own: {cgroup} cannot be written to")
    made = subprocess.run(
        [*_APART, sys.executable, "-c", _MAKE, *PACKAGES],  # scripts of packages run there, as root
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if made.returncode != 0 and shutil.which("debootstrap") is None:
        pytest.skip("no machine with a systemd of its own: debootstrap is missing (tools/node-packages)")
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the distributions, of this version and of the next, and with all that they need."""
    directory = tmp_path_factory.mktemp("wheels")
    _run(["make", "build", f"dist={directory}"], ROOT)
    pinned = re.findall(r"^[a-z0-9-]+==\S+", (directory / "requirements.txt").read_text(), re.MULTILINE)
    for wheel in _others(directory, pinned).glob("*.whl"):
        if not wheel.name.startswith("milepost"):
            shutil.copy(wheel, directory)
    _build_next(tmp_path_factory.mktemp("next"), directory)
    for other in directory.glob("*.tar.gz"):
        other.unlink()
    return directory


@pytest.fixture(scope="session")
def machine(layer: Path, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine on which the service was installed as the page says, in this version, and has state in ``flights``."""
    with Machine(layer, tmp_path_factory.mktemp("machine") / "log", SYSTEMD) as running:
        running.booted().put(ROOT / "deploy" / "systemd", f"{CLONE}/deploy/systemd")
        running.put(wheels, f"{CLONE}/dist")
        running.write("/etc/pip.conf", "[global]\nno-index = true\n")
        running.run(f"mkdir {CLONE}/next && mv {CLONE}/dist/*{NEXT}* {CLONE}/next")
        script = "\n".join([f"cd {CLONE}", *blocks("As a service of systemd")])
        assert running.run(script, VARIABLES, seconds=SECONDS).endswith("batch 7\n")
        yield running


def _others(directory: Path, pinned: Sequence[str]) -> Path:
    """Return a directory with what the distributions need, kept in the user's cache until that changes."""
    of_the_command = (ROOT / "client" / "pyproject.toml").read_text()  # the lock of the server does not have its parts
    named = hashlib.sha256("\n".join([*pinned, of_the_command]).encode()).hexdigest()[:12]
    made = cache_directory("images") / f"wheels-{named}"
    if made.exists():
        return made
    with tempfile.TemporaryDirectory(prefix=".wheels-", dir=made.parent) as name:
        constraints, found = Path(name, "constraints.txt"), Path(name, "wheels")
        constraints.write_text("\n".join(pinned))
        _run([sys.executable, "-m", "venv", Path(name, "pip")], ROOT)
        tags = ["manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, 37))]  # Debian's own is 2.36
        platforms = [f"--platform={tag}_{platform.machine()}" for tag in tags]
        fetching: list[str | Path] = [Path(name, "pip", "bin", "python"), "-m", "pip", "download", "--quiet"]
        given: list[str | Path] = ["--dest", found, "--find-links", directory, "--constraint", constraints]
        options = ["--only-binary=:all:", f"--python-version={PYTHON}", *platforms]
        _run([*fetching, *given, *options, "milepost-server", "milepost[cli]"], ROOT)
        try:
            found.rename(made)
        except OSError:
            if not made.exists():  # else another process was faster
                raise
    return made


def _build_next(copy: Path, directory: Path) -> None:
    """Build the next version from a copy of what git knows."""
    files = output_of(["git", "ls-files", "-z"], directory=ROOT, seconds=60).split("\0")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    for path in (*copy.rglob("pyproject.toml"), copy / "client" / "milepost" / "__init__.py"):
        ours = r'(^version = "|^__version__ = "|"milepost[^"=]*==)\d+\.\d+\.\d+(?=")'
        path.write_text(re.sub(ours, rf"\g<1>{NEXT}", path.read_text(), flags=re.MULTILINE))
    _run([ROOT / "tools" / "uv", "build", "--quiet", "--wheel", "--all-packages", "--out-dir", directory], copy)


def _run(command: list[str | Path], directory: Path) -> None:
    output_of(command, directory=directory, seconds=SECONDS)
