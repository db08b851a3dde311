"""``tools/chromium`` takes a Chromium that runs, and says in one line what to do where there is none.

The programs here are scripts: no machine has all the wrong ones at hand.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "chromium"
# Just enough for the script to run, and neither Chromium nor apt.
PROGRAMS = ("bash", "env", "mkdir")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (there := tmp_path / "bin").mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None
        (there / name).symlink_to(found)
    return there


def program(path: Path, status: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexit {status}\n")
    path.chmod(0o755)
    return path


def chromium(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(path), "MILEPOST_CACHE": str(path.parent / "cache")}
    command = [str(TOOL), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_one_that_does_not_run_is_passed_over_for_the_one_in_the_cache(path: Path) -> None:
    """As the stub that tells people to install a snap."""
    unpacked = program(path.parent / "cache/milepost/chromium/chromium", 0)
    found = program(path / "chromium", 1)
    assert chromium(path).stdout == f"{unpacked}\n"
    program(found, 0)
    assert chromium(path).stdout == f"{found}\n"


@pytest.mark.parametrize(
    ("arguments", "told"), [((), "put Chromium on the PATH"), (("--find",), "tools/chromium has fetched none yet")]
)
def test_where_there_is_none_one_line_says_so(path: Path, arguments: tuple[str, ...], told: str) -> None:
    ended = chromium(path, *arguments)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert len(ended.stderr.splitlines()) == 1
    assert told in ended.stderr
