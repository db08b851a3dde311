"""The Java that parts run on, and how small servers are run with it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from testbed.process import ProcessFailed

FOR_SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def java() -> Path:
    """The program: of JAVA_HOME, or else on the path. Raises `ProcessFailed`."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java") if home is None else str(Path(home) / "bin" / "java")
    if found is None:
        raise ProcessFailed("Java 17 or newer is neither in JAVA_HOME nor on the path (see tools/java-home)")
    return Path(found)
