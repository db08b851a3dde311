"""The distributions, built once for each module of tests, and environments into which they are installed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from testbed.server import ROOT
from tests.support.commands import output_of

UV = ROOT / "tools" / "uv"
SYSTEMCTL = Path(__file__).with_name("systemctl.py")
SECONDS = 240


@dataclass(frozen=True)
class Dist:
    """The directory that ``make build`` filled."""

    directory: Path

    @property
    def wheels(self) -> Mapping[str, Path]:
        """The wheels by the names of their distributions."""
        return {path.name.partition("-")[0].replace("_", "-"): path for path in self.directory.glob("*.whl")}

    @property
    def sdists(self) -> Mapping[str, Path]:
        """The sdists, by the same names."""
        return {path.name.partition("-")[0].replace("_", "-"): path for path in self.directory.glob("*.tar.gz")}

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables that make pip and uv find these distributions, and all others in the versions of the lock."""
        constraints = self.directory / "constraints.txt"
        pinned = re.findall(r"^[a-z0-9-]+==\S+", (self.directory / "requirements.txt").read_text(), re.MULTILINE)
        constraints.write_text("\n".join(pinned))
        others = {name: value for name, value in os.environ.items() if not name.startswith(("MILEPOST_", "VIRTUAL_"))}
        return {
            **others,
            "PIP_FIND_LINKS": str(self.directory),
            "UV_FIND_LINKS": str(self.directory),
            "PIP_CONSTRAINT": str(constraints),
            "UV_CONSTRAINT": str(constraints),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
            "PIP_NO_COMPILE": "1",  # nothing here runs often enough for that to pay
        }


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Dist:
    """What ``make build`` makes."""
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run(["make", "build", f"dist={directory}"], cwd=ROOT, timeout=SECONDS, check=True)
    return Dist(directory)


def environment(dist: Dist, directory: Path, *requirements: str) -> Path:
    """Make an environment in which nothing is but these requirements; return its directory of commands."""
    run([UV, "venv", "--quiet", "--python", sys.executable, directory], dist)
    run([UV, "pip", "install", "--quiet", "--python", directory, *requirements], dist)
    return directory / "bin"


def run(command: list[str | Path], dist: Dist, directory: Path = ROOT, **variables: str) -> str:
    """What a command printed that finds these distributions; it has to end well."""
    return output_of(command, directory=directory, seconds=SECONDS, environment={**dist.variables, **variables})


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory of commands that the page takes for granted, in front of the machine's own."""
    directory = tmp_path / "programs"
    directory.mkdir()
    path = os.environ["PATH"]  # tools/uv looks there for an uv, and must not find the one that is made here
    commands = {
        "python3": shlex.quote(sys.executable),
        "uv": f"env PATH={shlex.quote(path)} {shlex.quote(str(UV))}",
        "uvx": f"env PATH={shlex.quote(path)} {shlex.quote(str(UV))} tool run",
        "systemctl": f"{shlex.quote(sys.executable)} {shlex.quote(str(SYSTEMCTL))}",
    }
    for name, command in commands.items():
        (directory / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (directory / "sudo").write_text('#!/bin/sh\ncase $1 in --preserve-env=*) shift ;; esac\nexec "$@"\n')
    for program in directory.iterdir():
        program.chmod(0o755)
    return directory


@pytest.fixture
def variables(dist: Dist, programs: Path, tmp_path: Path) -> Mapping[str, str]:
    """The variables of a shell into which the page's lines are pasted."""
    tools = tmp_path / "tools"
    return {
        **dist.variables,
        "PATH": os.pathsep.join([str(programs), str(tools), os.environ["PATH"]]),
        "UV_TOOL_DIR": str(tmp_path / "tool-environments"),
        "UV_TOOL_BIN_DIR": str(tools),
        "UV_PYTHON": sys.executable,
    }
