"""Finds the Java that parts of the testbed run on, and says how to run small servers with it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from testbed.process import ProcessFailed

FOR_SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Options of Java for a server that starts fast and takes little memory."""


def java() -> Path:
    """Return the program ``java``: that of JAVA_HOME, or else one on the PATH. Raises `ProcessFailed`."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java") if home is None else str(Path(home) / "bin" / "java")
    if found is None:
        raise ProcessFailed("Java 17 or newer is neither in JAVA_HOME nor on the path (see tools/java-home)")
    return Path(found)
