"""Where the programs of Kubernetes are; what brings them is tools/kubernetes/build."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testbed.process import ProcessFailed

_BUILD = Path(__file__).parents[2] / "tools" / "kubernetes" / "build"


class ProgramAbsent(ProcessFailed):
    """A program is not there, nor is it built now; the message says what would bring it."""


def find_program(name: str) -> str:
    """Its path. Raises `ProgramAbsent`."""
    found = subprocess.run([_BUILD, "--find", name], capture_output=True, text=True, check=False, timeout=60)
    if found.returncode:
        raise ProgramAbsent(found.stderr.strip().removeprefix("kubernetes: "))
    return found.stdout.strip()
