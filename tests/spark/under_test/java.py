"""JVM options for many short-lived Sparks: the quick compiler alone, and Spark's classes from an archive.

The archive (JEP 350) halves the processor time that a Spark takes to start. It is made once and kept in the project's
cache, under a name that says which Spark and Java it is for; Java itself ignores one that does not fit.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyspark

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
_DEADLINE_SECONDS = 240.0
_NOT_AGAIN_SECONDS = 3600.0


def options(cache: Path) -> str:
    """The options, with the archive made if it is not there yet.

    Of several that begin at a time one makes it, and the others wait. A Java that cannot make one goes without, and so
    does a machine that is too busy to make it in time, for an hour: the tests are slower then, and nothing else.
    """
    archive = cache / f"spark-classes-{pyspark.__version__}-{_java_id()}.jsa"
    cache.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        failed = archive.with_suffix(".failed")
        if not archive.exists() and not _is_recent(failed):
            try:
                _make(archive)
            except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
                failed.touch()
    return f"{QUICK} -XX:SharedArchiveFile={archive}" if archive.exists() else QUICK


def _is_recent(mark: Path) -> bool:
    return mark.exists() and time.time() - mark.stat().st_mtime < _NOT_AGAIN_SECONDS


def _java_id() -> str:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    assert java, "no Java: put it on the PATH, or set JAVA_HOME (tools/java-home finds or fetches one)"
    version = subprocess.run([java, "-version"], capture_output=True, timeout=60, check=True).stderr
    return hashlib.sha256(version + os.path.realpath(java).encode() + pyspark.__file__.encode()).hexdigest()[:12]


def _make(archive: Path) -> None:
    """Run a small job once; its JVM writes the archive when it ends."""
    being_made = archive.with_suffix(f".{os.getpid()}.tmp")
    arguments = f"{QUICK} -XX:ArchiveClassesAtExit={being_made} -Xlog:cds=off -Xlog:cds+dynamic=off"
    subprocess.run(
        [sys.executable, "-m", "tests.spark.under_test.warming", arguments],
        cwd=Path(__file__).parents[3],
        timeout=_DEADLINE_SECONDS,
        check=True,
        capture_output=True,
    )
    if being_made.exists():
        being_made.rename(archive)
