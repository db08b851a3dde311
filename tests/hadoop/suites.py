"""Compile Hadoop's contract suites, and run them on a file system."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.hadoop.programs import configure
from testbed.java import FOR_SMALL, java
from testbed.maven import jars

_HERE = Path(__file__).parent
_COMPILE_SECONDS = 300.0
_RUN_SECONDS = 1800.0


@dataclass(frozen=True)
class End:
    """How a test ended: ``passed``, ``failed`` or ``skipped``, and why."""

    outcome: str
    why: str


def compiled(directory: Path) -> Path:
    """The suites' classes, compiled into a directory."""
    javac = java().with_name("javac")
    sources = [str(path) for path in sorted((_HERE / "java").glob("*.java"))]
    command = [str(javac), "-Xlint:all,-classfile,-path,-processing", "-Werror", "-d", str(directory)]
    ended = subprocess.run(
        [*command, "-cp", _jars(), *sources], capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return directory


def run(classes: Path, directory: Path, uri: str, root: str, settings: Mapping[str, str]) -> dict[str, End]:
    """Run all suites below a directory of a file system, whose clients get these settings; how each test ended."""
    configuration = directory / "conf"
    configure(configuration, settings)
    shutil.copy(_HERE / "contract.xml", configuration)
    command = [
        *(str(java()), *FOR_SMALL, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
        *(f"-Dcontract.uri={uri}", f"-Dcontract.root={root}", f"-Dtest.build.data={directory / 'build'}"),
        *("-cp", f"{classes}:{configuration}:{_jars()}", "milepost.contract.Main"),
    ]
    out, log = directory / "suites.out", directory / "suites.log"
    with out.open("w") as ends, log.open("w") as errors:
        ended = subprocess.run(command, stdout=ends, stderr=errors, timeout=_RUN_SECONDS, cwd=directory, check=False)
    lines = out.read_text().splitlines()
    assert (ended.returncode, lines[-1:]) == (0, ["ended"]), log.read_text()[-2000:]
    return {name: End(outcome, why) for name, outcome, why in (line.split("\t") for line in lines[:-1])}


def _jars() -> str:
    return f"{jars('hadoop-contract')}/*"
