"""Finds the jars of Java programs that ``tools/maven-jars`` fetches and keeps in the user's cache."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from testbed.process import ProcessFailed

_TOOL = Path(__file__).parents[1] / "tools" / "maven-jars"
_FETCH_SECONDS = 600.0


@cache
def jars(name: str) -> Path:
    """Return the directory with the jars of ``name``, which are fetched if they are missing. Raises `ProcessFailed`."""
    ended = subprocess.run([_TOOL, name], capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
    if ended.returncode != 0:
        raise ProcessFailed(f"no jars of {name}: {ended.stderr}")
    return Path(ended.stdout.strip())
