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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.capacity.files import STEPS, WRITERS, Client, Tree, sending
from benchmarks.load import Next, run
from benchmarks.rest import WORKLOADS, Service
from testbed.server import ServerProcess

REQUESTS = 300
STATE = b"x" * 1024
"""The bytes of each state of a handle, but of those that are only locked."""

_REQUESTS_OF_A_FILE = {"file by Hadoop's client": 10}
_CALLS = ("record", "state", "lock", "add", "replace")
"""The calls of handles, by their names in `WORKLOADS`."""

_WARMING = 60
_IDLE_SECONDS = 3.0
_START_SECONDS = 300.0
_RUN_SECONDS = 600.0
_TOTALS = re.compile(r"^(?:totals|summary): (\d+)", re.MULTILINE)


def can_count() -> bool:
    """Return whether this machine has callgrind."""
    return bool(shutil.which("valgrind") and shutil.which("callgrind_control"))


def counted(
    directory: Path, requests: int = REQUESTS, kinds: Sequence[str] | None = None
) -> Iterator[tuple[str, float]]:
    """Yield the thousands of instructions of the server for each kind of request: by its name in `STEPS`, for a whole
    file in each of the `WRITERS`, and by its name in `_CALLS`. With ``kinds``, count only those: `put` needs `create`,
    and `rename` needs both. One connection sends them, so every commit has one request.
    """
    wrapper = ("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={directory}/out")
    with ServerProcess(directory, wrapper=(*wrapper, "--")) as server:
        server.start(deadline=_START_SECONDS)
        tree, calls = Tree.led(server.url, "instructions"), Service(server.url, keyed=False, state=STATE)
        locks = Service(server.url, keyed=False)
        calls.set_up("calls", 1)
        locks.set_up("locks", 1)
        idle, seconds = _counted(server, directory, lambda: time.sleep(_IDLE_SECONDS))
        idle /= seconds

        for name, (client, fewer) in _clients(tree, calls, locks).items():
            if kinds is None or name in kinds:
                sent = _instructions(server, directory, client, requests - fewer, idle)
                yield name, sent * _REQUESTS_OF_A_FILE.get(name, 1)
        server.stop(deadline=_START_SECONDS)


def _clients(tree: Tree, calls: Service, locks: Service) -> dict[str, tuple[Callable[[], Next], int]]:
    """Return by kind of request what makes a client that sends it, and how many requests fewer it sends: a kind takes
    the files that the one before left, and the last answer of a connection leaves none.
    """
    of_files = {name: partial(_of_tree, step, tree) for name, step in STEPS.items()}
    whole = {f"file {way}": partial(_of_files, writer, tree) for way, writer in WRITERS.items()}
    of_calls = {name: partial(WORKLOADS[name], locks if name == "lock" else calls, 0) for name in _CALLS}
    fewer = {name: 2 * place for place, name in enumerate(STEPS)}
    return {name: (client, fewer.get(name, 0)) for name, client in {**of_files, **whole, **of_calls}.items()}


def _of_tree(step: Callable[[Tree], Client], tree: Tree) -> Next:
    return sending(step(tree))


def _of_files(writer: Callable[[Tree, list[str]], Client], tree: Tree) -> Next:
    return sending(writer(tree, []))


def _instructions(
    server: ServerProcess, directory: Path, client: Callable[[], Next], requests: int, idle: float = 0.0
) -> float:
    """Return the thousands of instructions for one request, without those that the server takes anyway: ``idle``
    thousand a second.
    """
    _send(server, client(), _WARMING)
    sent = client()
    counted, seconds = _counted(server, directory, lambda: _send(server, sent, requests))
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


def _send(server: ServerProcess, client: Next, requests: int) -> None:
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
