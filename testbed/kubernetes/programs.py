"""Finds the programs of Kubernetes, which tools/kubernetes/build builds."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testbed.process import ProcessFailed

_BUILD = Path(__file__).parents[2] / "tools" / "kubernetes" / "build"


class ProgramAbsent(ProcessFailed):
    """A program is missing, and is not built now. The message says how to get it."""


def find_program(name: str) -> str:
    """Return the path of a program. Raises `ProgramAbsent`."""
    found = subprocess.run([_BUILD, "--find", name], capture_output=True, text=True, check=False, timeout=60)
    if found.returncode:
        raise ProgramAbsent(found.stderr.strip().removeprefix("kubernetes: "))
    return found.stdout.strip()
