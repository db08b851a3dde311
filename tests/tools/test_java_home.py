"""``tools/java-home`` takes a Java that runs and is new enough, wherever it is said to be.

The Javas here are scripts that report a version: no machine has all the wrong ones at hand.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
# Just enough for the script to run, and no Java.
PROGRAMS = ("bash", "dirname", "env", "sed")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with nothing but the script, and a PATH that has neither Java nor apt."""
    (tmp_path / "tools").mkdir()
    shutil.copy(TOOLS / "java-home", tmp_path / "tools")
    (tmp_path / "bin").mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / "bin" / name).symlink_to(found)
    return tmp_path


def java(path: Path, version: str, home: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!/bin/sh\necho '    java.home = {home}' >&2\necho '    java.specification.version = {version}' >&2\n"
    )
    path.chmod(0o755)


def java_home(project: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(project / "tools" / "java-home")],
        env={"PATH": str(project / "bin"), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_a_java_that_is_too_old_is_passed_over(project: Path, version: str) -> None:
    java(project / "named/bin/java", version, "/named")
    java(project / "bin/java", "21", "/on/path")
    assert java_home(project, JAVA_HOME=str(project / "named")).stdout == "/on/path\n"
    java(project / "named/bin/java", "17", "/named")
    assert java_home(project, JAVA_HOME=str(project / "named")).stdout == "/named\n", "it comes before the PATH"


def test_a_java_that_does_not_run_is_passed_over(project: Path) -> None:
    java(project / ".cache/java/usr/lib/jvm/java-17-openjdk/bin/java", "17", "/unpacked")
    stub = project / "bin/java"
    stub.write_text("#!/bin/sh\necho 'no Java runtime present' >&2\nexit 1\n")
    stub.chmod(0o755)
    assert java_home(project, JAVA_HOME=str(project / "gone")).stdout == "/unpacked\n"


def test_where_there_is_none_and_no_apt_one_line_says_what_to_do(project: Path) -> None:
    ended = java_home(project)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert "install Java 17 or newer" in ended.stderr
