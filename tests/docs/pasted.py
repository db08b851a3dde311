"""Pastes the blocks of a page into one shell, one after the other, as a reader would."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import milepost
from tests.docs.blocks import Block

DEADLINE_SECONDS = 240
ADDRESSES = ("http://127.0.0.1:7070", "http://milepost.milepost:7070")
"""Where the pages say that the service is."""

_HERE = Path(__file__).parent
PROGRAMS = ["curl", "stand-in"] if shutil.which("curl") else ["stand-in"]
"""What is curl: the machine's own, or one of the standard library alone, for where there is none."""


def run(
    script: str, directory: Path, program: str = PROGRAMS[0], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script of bash in a directory of its own, which ends at the first line that fails."""
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
        cwd=directory,
        env={**os.environ, **variables(directory, program), **environment},
    )


def variables(directory: Path, program: str = PROGRAMS[0]) -> Mapping[str, str]:
    """Return the variables with which a shell finds the programs that the pages take for granted."""
    return {"PATH": _path(directory, program)}


def script_of(blocks: Sequence[Block], url: str, replaced: Mapping[str, str], directory: Path) -> str:
    """Return all blocks as one script, for the service at ``url``. It says at which block it is."""
    lines = []
    for number, block in enumerate(blocks):
        text = at(block.text, url)
        for old, new in replaced.items():
            text = text.replace(old, new)
        lines.append(f"echo '== {block.place}'")
        if block.language == "python":
            program = directory / f"block_{number}.py"
            program.write_text(f"token = None\n{text}", encoding="utf-8")
            text = f"python {program}"
        lines.append(text)
    return "\n".join(lines)


def at(text: str, url: str) -> str:
    """Return the text with the service's address in place of the one on the page."""
    for address in ADDRESSES:
        text = text.replace(address, url)
    if "webhdfs://127.0.0.1:7070" in text:  # Hadoop's client looks for the leader itself, and is not sent on
        with milepost.Client(url) as client:
            leader = client.status().leader or url
        text = text.replace("webhdfs://127.0.0.1:7070", leader.replace("http", "webhdfs"))
    return text


def _path(directory: Path, program: str) -> str:
    """This environment's programs, and a stand-in for each one that the machine does not have."""
    programs = directory / "programs"
    programs.mkdir(exist_ok=True)
    stand_ins = {"hdfs": "hdfs_program.py"} if program == "curl" else {"hdfs": "hdfs_program.py", "curl": "curl.py"}
    for name, source in stand_ins.items():
        stand_in = programs / name
        stand_in.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(_HERE / source))} "$@"\n')
        stand_in.chmod(0o755)
    return os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
