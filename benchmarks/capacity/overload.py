"""How overload looks: a leader at the end of its core for minutes, with sessions that must not expire.

More jobs than it can serve write files and delete old ones as fast as they are answered, while other clients keep
sessions alive. In the end every file that was acknowledged and not deleted must be listed, and a sample must have its
bytes.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
import uvloop

from benchmarks.capacity.files import BODY, Tree, sending, whole_files
from benchmarks.load import run
from benchmarks.rest import processor_seconds
from testbed.server import ServerProcess

TTL_SECONDS = 10
_SESSIONS = 20
_SAMPLE = 500


@dataclass
class Overload:
    """What a trial found. ``waits`` are the seconds of each keepalive, ``lost`` the sessions that expired, ``share``
    the part of a core that the server used, and ``missing`` acknowledged files that are not there, or not whole.
    """

    files: int = 0
    share: float = 0.0
    waits: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether no session was lost, no file is missing, and keepalives took less than a third of the TTL."""
        return not self.lost and not self.missing and self.slowest(0.99) < TTL_SECONDS / 3

    def slowest(self, share: float) -> float:
        """Return the seconds that this share of the keepalives did not exceed."""
        return sorted(self.waits)[min(len(self.waits) - 1, int(share * len(self.waits)))]


def tried(server: ServerProcess, jobs: int, seconds: float) -> Overload:
    """Let ``jobs`` clients write files for ``seconds``, and return what became of sessions and files."""
    found, done, gone = Overload(), list[str](), set[str]()
    trees = [Tree.led(server.url, f"busy-{number}") for number in range(jobs)]
    with _kept_alive(server.url, found):
        before, began = processor_seconds(server.pid), time.monotonic()
        clients = [sending(whole_files(tree, done, gone)) for tree in trees]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run(server.url, clients, seconds=seconds, requests=10**9))
        found.share = (processor_seconds(server.pid) - before) / (time.monotonic() - began)
    found.files = len(done)
    found.missing = _missing(server.url, [path for path in done if path not in gone])
    return found


@contextmanager
def _kept_alive(url: str, found: Overload) -> Iterator[None]:
    """Keep sessions alive while the block runs, each by a thread, three times in each TTL."""
    over, threads = threading.Event(), list[threading.Thread]()
    for number in range(_SESSIONS):
        thread = threading.Thread(target=_keep, args=(url, f"kept-{number}", over, found))
        thread.start()
        threads.append(thread)
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _keep(url: str, session: str, over: threading.Event, found: Overload) -> None:
    with httpx.Client(base_url=url, timeout=TTL_SECONDS) as client:
        client.post("/v1/sessions", json={"ttl": TTL_SECONDS, "session": session}).raise_for_status()
        while not over.wait(random.uniform(0.9, 1.0) * TTL_SECONDS / 3):
            began = time.monotonic()
            answer = client.post(f"/v1/sessions/{session}/keepalive")
            found.waits.append(time.monotonic() - began)
            if answer.status_code >= 300:
                found.lost.append(f"{session}: {answer.text}")
                return


def _missing(url: str, acknowledged: list[str]) -> list[str]:
    """Return those of the acknowledged files that are not listed with their size; and of a sample, those that have
    other bytes.
    """
    with httpx.Client(base_url=url, timeout=60.0, follow_redirects=True) as client:
        listed = set[str]()
        for directory in sorted({path.rpartition("/")[0] for path in acknowledged}):
            statuses = client.get(directory, params={"op": "LISTSTATUS"}).raise_for_status().json()["FileStatuses"]
            whole = [each["pathSuffix"] for each in statuses["FileStatus"] if each["length"] == len(BODY)]
            listed |= {f"{directory}/{name}" for name in whole}
        wrong = [path for path in acknowledged if path not in listed]
        sample = random.Random(1).sample(acknowledged, min(_SAMPLE, len(acknowledged)))
        return wrong + [path for path in sample if client.get(path, params={"op": "OPEN"}).content != BODY]
