"""How many instructions a request takes, counted by callgrind: the same on a busy machine, so that 3 % are seen.

Callgrind makes the server fifty times as slow, so it counts only between the warming and the end of each kind of
request, of which a few hundred are sent.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.capacity.files import STEPS, Client, Tree, files, sending
from benchmarks.load import run
from testbed.server import ServerProcess

REQUESTS = 300
_WARMING = 60
_IDLE_SECONDS = 3.0
_START_SECONDS = 300.0
_RUN_SECONDS = 600.0
_TOTALS = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


def can_count() -> bool:
    """Return whether this machine has callgrind."""
    return bool(shutil.which("valgrind") and shutil.which("callgrind_control"))


def counted(directory: Path, requests: int = REQUESTS) -> dict[str, float]:
    """Return the thousands of instructions of the server for each kind of request, by its name in `STEPS`, and for a
    whole file. One connection sends them, so every commit has one request.
    """
    wrapper = ("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={directory}/out")
    found: dict[str, float] = {}
    with ServerProcess(directory, wrapper=(*wrapper, "--")) as server:
        server.start(deadline=_START_SECONDS)
        tree = Tree.led(server.url, "instructions")
        idle, seconds = _counted(server, directory, lambda: time.sleep(_IDLE_SECONDS))
        idle /= seconds
        for place, (name, step) in enumerate(STEPS.items()):
            # a kind takes the files that the one before left, and the last answer of a connection leaves none
            client = partial(step, tree)
            found[name] = _instructions(server, directory, client, requests - 2 * place, idle)
        found["file"] = 10 * _instructions(server, directory, partial(files, tree, []), requests, idle)
        server.stop(deadline=_START_SECONDS)
    return found


def _instructions(
    server: ServerProcess, directory: Path, step: Callable[[], Client], requests: int, idle: float = 0.0
) -> float:
    """Return the thousands of instructions for one request, without those that the server takes anyway: ``idle``
    thousand a second.
    """
    _send(server, sending(step()), _WARMING)
    client = sending(step())
    counted, seconds = _counted(server, directory, lambda: _send(server, client, requests))
    return (counted - idle * seconds) / requests


def _counted(server: ServerProcess, directory: Path, work: Callable[[], None]) -> tuple[float, float]:
    """Return the thousands of instructions of the server during some work, and the seconds that it took."""
    _control(server, "--instr=on")
    _control(server, "--zero")
    before, began = set(directory.glob("out*")), time.monotonic()
    work()
    seconds = time.monotonic() - began
    _control(server, "--dump")
    _control(server, "--instr=off")
    (dump,) = set(directory.glob("out.*")) - before
    return sum(map(int, _TOTALS.findall(dump.read_text())[-1:])) / 1000, seconds


def _send(server: ServerProcess, client: Callable[..., bytes], requests: int) -> None:
    asyncio.run(run(server.url, [client], seconds=_RUN_SECONDS, requests=requests))


def _control(server: ServerProcess, command: str) -> None:
    done = subprocess.run(
        ["callgrind_control", command, str(server.pid)],
        capture_output=True,
        text=True,
        timeout=_RUN_SECONDS,
        check=False,
    )
    if done.returncode or "Error" in done.stderr:
        sys.exit(f"callgrind does not obey {command}: {done.stdout} {done.stderr}")
