"""Builds the jar of the Java agent of ``milepost run`` from ``client/agent``, against the Spark of this environment.

The same sources give the same bytes: the jar has no times, is not compressed, and its classes have no names of lines.
With JDK 17 and 25, and with Spark 3.5, 4.0 and 4.3, they were the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import pyspark

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "client" / "agent"
JAR: Final = ROOT / "client" / "milepost" / "supervise" / "rows-agent.jar"

_MANIFEST: Final = "Manifest-Version: 1.0\r\nPremain-Class: io.milepost.run.RowsAgent\r\n\r\n"
_RELEASE: Final = "9"
"""The first Java that reads ``JDK_JAVA_OPTIONS``: an agent for a later one would end a JVM that is older than that."""
_BEGINNING_OF_TIME: Final = (1980, 1, 1, 0, 0, 0)
_SECONDS: Final = 240


class NoCompiler(Exception):
    """This machine has no JDK."""


def build(jar: Path) -> None:
    """Compile the sources and write the jar. Raises `NoCompiler`."""
    spark = Path(pyspark.__file__).parent / "jars" / "*"
    with tempfile.TemporaryDirectory() as classes:
        checks = ["-Xlint:all,-path,-options", "-Werror"]
        options = ["--release", _RELEASE, "-g:none", *checks, "-cp", str(spark), "-d", classes]
        sources = sorted(map(str, SOURCES.rglob("*.java")))
        subprocess.run([compiler(), *options, *sources], timeout=_SECONDS, check=True)
        with zipfile.ZipFile(jar, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_entry("META-INF/MANIFEST.MF"), _MANIFEST)
            for path in sorted(Path(classes).rglob("*.class")):
                archive.writestr(_entry(path.relative_to(classes).as_posix()), path.read_bytes())


def compiler() -> str:
    """Return the path of javac. Raises `NoCompiler`."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javac", path=f"{home}/bin" if home else None)
    if found is None:
        raise NoCompiler("sources in Java need a JDK (javac), and here is a JRE alone")
    return found


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _BEGINNING_OF_TIME)
    entry.external_attr = 0o644 << 16
    return entry
