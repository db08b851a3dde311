"""Builds ``milepost.jar``, with the classes that Spark's JVMs load, from ``client/jvm``.

It compiles against the Spark of this environment. The same sources give the same bytes: the jar has no times, is not
compressed, and its classes have no names of lines. With JDK 17 and 25, and with Spark 3.5, 4.0 and 4.3, they were the
same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyspark

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "client" / "jvm"
JAR: Final = ROOT / "client" / "milepost" / "jvm" / "milepost.jar"

_MANIFEST: Final = "Manifest-Version: 1.0\r\nPremain-Class: io.milepost.run.Agent\r\n\r\n"
_RELEASE: Final = "9"
"""The first Java that reads ``JDK_JAVA_OPTIONS``: an agent for a later one would end a JVM that is older than that."""
_BEGINNING_OF_TIME: Final = (1980, 1, 1, 0, 0, 0)
_SECONDS: Final = 240

_MANAGER: Final = "io/milepost/spark/FileManager.java"
_INTERFACE: Final = "org/apache/spark/sql/execution/streaming/CheckpointFileManager.java"
_PACKAGE, _EARLIER_PACKAGE = "execution.streaming.checkpointing", "execution.streaming"
"""The package of Spark's interface from Spark 4.1 on, and before."""


class NoCompiler(Exception):
    """This machine has no JDK."""


def build(jar: Path) -> None:
    """Compile the sources and write the jar. Raises `NoCompiler`."""
    spark = Path(pyspark.__file__).parent / "jars" / "*"
    with tempfile.TemporaryDirectory() as directory:
        made, classes = Path(directory, "sources"), Path(directory, "classes")
        checks = ["-Xlint:all,-path,-options", "-Werror"]
        # The compiler takes Spark's interface from the sources, since each Spark has it in one of the two packages.
        options = ["--release", _RELEASE, "-g:none", *checks, "-cp", str(spark), "-d", str(classes)]
        sources = [*(str(path) for path in sorted((SOURCES / "io").rglob("*.java"))), *map(str, _made(made))]
        subprocess.run([compiler(), *options, *sources], timeout=_SECONDS, check=True)
        with zipfile.ZipFile(jar, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_entry("META-INF/MANIFEST.MF"), _MANIFEST)
            for path in sorted((classes / "io").rglob("*.class")):
                archive.writestr(_entry(path.relative_to(classes).as_posix()), path.read_bytes())


def _made(directory: Path) -> Iterator[Path]:
    """Make the sources that come in two forms, as Spark's interface does, and yield their paths: the interface in both
    of its packages, and the file manager for the Sparks before 4.1.
    """
    interface, manager = (SOURCES / "stubs" / _INTERFACE).read_text(), (SOURCES / _MANAGER).read_text()
    earlier = manager.replace(_PACKAGE, _EARLIER_PACKAGE)
    texts = {
        _INTERFACE: interface,
        _INTERFACE.replace("streaming/", "streaming/checkpointing/"): interface.replace(_EARLIER_PACKAGE, _PACKAGE),
        _MANAGER.replace("FileManager", "EarlierFileManager"): earlier.replace(" FileManager", " EarlierFileManager"),
    }
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        yield path


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
