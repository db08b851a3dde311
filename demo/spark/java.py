"""Options for JVMs that live for a minute: no optimising compiler, and Spark's classes from an archive.

The archive (JEP 350) saves a third of the processor time that a driver takes until it is warm. It is made once, kept in
the project's cache, and named after the Spark and the Java that it fits.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from demo.processes import DemoFailed, Processes

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xshare:auto"
_DEADLINE_SECONDS = 240.0


def archive_path(cache: Path) -> Path:
    """Where the archive for this Spark and this Java lies, or will lie. Raises `DemoFailed` without a Java."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise DemoFailed("no Java here; `make demo` finds or fetches one")
    release = subprocess.run([java, "-version"], capture_output=True, timeout=60, check=True).stderr
    fitting = hashlib.sha256(release + os.path.realpath(java).encode()).hexdigest()[:12]
    return cache / f"demo-classes-{version('pyspark')}-{fitting}.jsa"


def options(archive: Path, scratch: Path) -> str:
    """The options with the archive, which must have been made; ``scratch`` is for temporary files."""
    return f"{QUICK} -XX:SharedArchiveFile={archive} -Djava.io.tmpdir={scratch}"


def make_archive(processes: Processes, archive: Path) -> None:
    """Warm a Spark up once; its JVM writes the archive when it ends. Raises `DemoFailed`."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(f".{os.getpid()}.tmp")
    recording = f"-XX:ArchiveClassesAtExit={unfinished} -Xlog:cds=off -Xlog:cds+dynamic=off"
    process = processes.start(
        "archive", "demo.spark.warming", f"{QUICK} {recording} -Djava.io.tmpdir={processes.scratch}"
    )
    status = process.wait(_DEADLINE_SECONDS)
    if status != 0 or not unfinished.exists():
        raise process.failed(f"made no archive of classes and ended with {status}")
    unfinished.rename(archive)
