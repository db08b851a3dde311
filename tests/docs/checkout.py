"""Makes a second checkout, in which a test may change files, install things and run ``make`` as a developer does."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import httpx

from testbed.ports import Port
from testbed.process import Process
from tests.docs.blocks import ROOT

DEADLINE_SECONDS = 800
_SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


class Checkout:
    """The files of this checkout as they are now, with an environment of their own, in a directory of a test.

    Its environment has the same libraries by links, and the distributions of the copy in place of ours. So nothing
    is fetched, and what is installed there is installed nowhere else. It counts as set up: ``make setup`` does nothing.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=True,
        ).stdout.split("\0")
        for name in filter(None, listed):
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # deleted, and not committed yet
                shutil.copy2(ROOT / name, target, follow_symlinks=False)
        self._make_environment(directory / ".venv")
        (directory / ".cache").mkdir()
        for program in (*ROOT.glob(".cache/uv-*"), *ROOT.glob(".cache/java")):
            (directory / ".cache" / program.name).symlink_to(program)
        if (ROOT / ".mypy_cache").is_dir():  # so that only what is changed in the copy is looked at anew
            shutil.copytree(ROOT / ".mypy_cache", directory / ".mypy_cache")

    def path(self, name: str) -> Path:
        """Return the path of a file in it."""
        return self.directory / name

    def run(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Paste lines into a shell in it. Each has to end well."""
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory,
            env=variables(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, f"{script}\n{ended.stdout}"
        return ended

    def serving(self, line: str, port: Port, log: Path) -> Process:
        """Return a process, not started yet, of a line that ends with ``make serve``; it serves at ``port``."""
        return Process(
            line,
            ["bash", "-euo", "pipefail", "-c", line.replace("make serve", "exec make serve")],
            log_path=log,
            directory=self.directory,
            environment=variables(MILEPOST_LISTEN=port.address),
        )

    def _make_environment(self, place: Path) -> None:
        theirs = Path(sysconfig.get_path("purelib"))
        ours = place / _SITE
        ours.mkdir(parents=True)
        for entry in theirs.iterdir():
            if entry.suffix == ".dist-info":  # uv looks for directories, and takes no links to them
                shutil.copytree(entry, ours / entry.name)
            elif not entry.name.startswith("_editable_impl_"):
                (ours / entry.name).symlink_to(entry)
        (ours / "checkout.pth").write_text(
            "".join(f"{self.directory / each}\n" for each in ("service", "backends", "client"))
        )
        (place / "bin").mkdir()
        shutil.copy2(Path(sys.prefix) / "pyvenv.cfg", place)
        for program in (Path(sys.prefix) / "bin").iterdir():
            self._link(program, place / "bin" / program.name)
        (place / "ready").touch()

    def _link(self, program: Path, link: Path) -> None:
        """Link a program; one that is a script of this environment's Python becomes one of the other's."""
        if program.is_symlink() or not program.is_file():
            link.symlink_to(program.readlink() if program.is_symlink() else program)
            return
        with program.open("rb") as file:
            first = file.readline(300)
        if first.startswith(f"#!{sys.prefix}/".encode()):
            own = first.replace(sys.prefix.encode(), str(link.parents[1]).encode())
            link.write_bytes(own + program.read_bytes()[len(first) :])
            link.chmod(0o755)
        else:
            link.symlink_to(program)


def variables(**more: str) -> Mapping[str, str]:
    """Return the variables of a developer's shell: none of Milepost's, nor of a ``make`` that may run this test."""
    own = ("MILEPOST_", "MAKE", "MFLAGS", "VIRTUAL_", "PYTEST_", "PYTHONPATH", "ARGS", "CI", "KUBECONFIG")
    others = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**others, **more}


def leads(port: Port, trusted: ssl.SSLContext | None = None) -> Callable[[], bool]:
    """Return what tells whether a server there leads, by TLS if it is told whom to trust."""
    url = f"http{'s' if trusted else ''}://{port.address}/leader"

    def answered() -> bool:
        try:
            return httpx.get(url, timeout=5, trust_env=False, verify=trusted or True).status_code == 200
        except httpx.TransportError:
            return False

    return answered
