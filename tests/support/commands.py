"""Commands that have to end well, such as those of compilers and installers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def output_of(
    command: Sequence[str | Path],
    *,
    directory: Path,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    warns: bool = True,
) -> str:
    """What a command printed. Without ``warns`` it may print nothing to stderr either.

    ``environment`` is all of its variables; None: those of this process.
    """
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=directory,
        env=dict(os.environ if environment is None else environment),
    )
    said = f"{command}\n{ended.stdout}\n{ended.stderr}"
    assert ended.returncode == 0, said
    assert warns or not ended.stderr, said
    return ended.stdout
