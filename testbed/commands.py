"""Runs programs to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from testbed.kubernetes.programs import find_program
from testbed.process import ProcessFailed

DEADLINE_SECONDS = 120.0


def run(
    command: Sequence[str | Path],
    *,
    given: str | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    deadline: float = DEADLINE_SECONDS,
) -> str:
    """Run a program and return what it printed. ``given`` is its input, and ``environment`` all of its environment.

    Raises `ProcessFailed` when it ends with an error, or still runs after ``deadline`` seconds.
    """
    words = [str(word) for word in command]
    try:
        ended = subprocess.run(
            words,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            env=None if environment is None else dict(environment),
            cwd=directory,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=deadline,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ProcessFailed(f"{' '.join(words)} still runs after {deadline:g} s") from error
    except FileNotFoundError as error:
        raise ProcessFailed(f"{words[0]} is not installed (tools/node-packages brings what a node needs)") from error
    if ended.returncode != 0:
        raise ProcessFailed(f"{' '.join(words)} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


@cache
def program(name: str) -> str:
    """Return the path of a program of Kubernetes. Raises `ProgramAbsent`."""
    return find_program(name)
