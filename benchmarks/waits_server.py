"""A server that has much to keep, for `benchmarks.waits`: it fills a journal, then serves it.

    python -m benchmarks.waits_server DIRECTORY HANDLES SESSIONS

Half of the handles are in one store and held by one session, the others are spread over stores and sessions. A tenth as
many names were removed, as many handles are in each of a few stores that are there to be cleared, and as many blobs of
an earlier term lie there, half of them orphans. SIGUSR1 lets eleven minutes pass, after which what was removed and
cleared is dropped; for SIGUSR2 see `Watch`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import FrameType

from milepost_backends.contract import Change, Done
from milepost_backends.embedded.pointers import EmbeddedPointers
from milepost_server.compose import ReplicaConfig, application, open_replica
from milepost_server.http.access.tokens import Tokens
from milepost_server.journal.proof import Proof
from milepost_server.model.answered import Answered
from milepost_server.model.records import (
    DEPLOYMENT_KEY,
    Handle,
    Lock,
    Session,
    Store,
    Stored,
    encode,
    handle_key,
    session_key,
    store_key,
)
from milepost_server.model.records import Deployment as DeploymentRecord
from milepost_server.replica.settings import Settings
from milepost_server.server import bound, run

LARGE, OWNER, DEPLOYMENT = "large", "owner", "benchmark"
CLEARED = tuple(f"cleared-{number}" for number in range(5))
TTL_SECONDS = 3600.0
_AT_ONCE = 2000
_PASSING_SECONDS = 660.0


def records(handles: int, sessions: int) -> Iterator[tuple[str, Stored]]:
    """What there is."""
    yield DEPLOYMENT_KEY, DeploymentRecord(DEPLOYMENT)
    stores = max(10, handles // 100)
    for name in (OWNER, *(f"s{number}" for number in range(sessions))):
        yield session_key(name), Session(name, TTL_SECONDS, 1, holder="benchmark")
    for store in (LARGE, *CLEARED, *(f"store-{number}" for number in range(stores))):
        yield store_key(store), Store(store)
    for number in range(handles // 2):
        yield _handle(LARGE, number, OWNER)
        yield _handle(f"store-{number % stores}", number, f"s{number % sessions}")
    for number in range(handles // 10):
        yield _handle(LARGE, handles + number, "", gone=True)
        for store in CLEARED:
            yield _handle(store, number, "")


def _handle(store: str, number: int, holder: str, *, gone: bool = False) -> tuple[str, Handle]:
    name, then = f"handle-{number:07}", "2026-01-31T12:00:00.000Z"
    handle = Handle(
        name=name,
        version=f"0123456789ab.{number}",
        blob="" if gone else blob_of(store, number),
        size=100,
        sha256=f"{number:064x}",
        created=then,
        updated=then,
        created_revision=2,
        changed=2,
        locks=(Lock(holder, 1, 2),) if holder else (),
        gone=gone,
        answered=(Answered(holder, f"key-{number}", "0" * 24, 2, {"body": {"removed": True}}),),
    )
    return handle_key(store, name), handle


def blob_of(store: str, number: int) -> str:
    """Where the bytes of a handle would lie."""
    return f"{DEPLOYMENT}/{store}/000000000000/{number:032x}"


async def fill(directory: Path, handles: int, sessions: int) -> None:
    """Write all that into a journal."""
    pointers, proof = EmbeddedPointers(directory / "pointers"), Proof()
    await pointers.open()
    head = await pointers.take_over("root")
    every = records(handles, sessions)
    while group := [(key, encode(key, record)) for key, record in islice(every, _AT_ONCE)]:
        proof.apply(group)
        changes = [Change(key, value) for key, value in group]
        done = await pointers.commit(head, changes, head.revision + 1, proof.digest)
        if not isinstance(done, Done):
            raise SystemExit(f"the journal cannot be filled: {done.detail}")
        head = done.head
    await pointers.close()
    for number in range(handles // 10):
        for name in (blob_of(LARGE, number), f"{DEPLOYMENT}/{LARGE}/000000000000/{'f' * 16}{number:016x}"):
            path = directory / "blobs" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")


class Watch:
    """The most processor time that the event loop worked between two turns of a task that is due every millisecond.

    Processor time of its own thread: what other processes take of the machine is not in it. SIGUSR2 asks for it.
    """

    def __init__(self) -> None:
        self._most = 0.0
        self._last = 0.0

    async def run(self) -> None:
        """Watch until cancelled."""
        signal.signal(signal.SIGUSR2, self._asked)
        self._last = time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time()
            self._most = max(self._most, now - self._last)
            self._last = now

    def _asked(self, _signal: int, _frame: FrameType | None) -> None:
        print(self._most, flush=True)
        self._most, self._last = 0.0, time.thread_time()


class Clock:
    """Monotonic seconds that a signal moves on."""

    def __init__(self) -> None:
        self._shift = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._shift

    def moved_on(self, _signal: int, _frame: FrameType | None) -> None:
        """Let the time pass that removed names are kept."""
        self._shift += _PASSING_SECONDS


def main() -> None:
    """Fill and serve."""
    directory, handles, sessions = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    asyncio.run(fill(directory, handles, sessions))
    clock = Clock()
    signal.signal(signal.SIGUSR1, clock.moved_on)
    sockets = bound("127.0.0.1", 0)
    url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    deployment = ReplicaConfig(f"embedded:{directory}/pointers", f"file:{directory}/blobs", url, "benchmark")
    settings = Settings(
        collect_after_seconds=0.0, collect_interval_seconds=1.0, maintenance_interval_seconds=0.5, linger_seconds=0.0
    )
    replica = open_replica(deployment, settings, clock)
    start, watching = replica.start, []

    async def watched() -> None:
        watching.append(asyncio.create_task(Watch().run()))
        await start()

    setattr(replica, "start", watched)  # noqa: B010, which mypy would take for a mistake otherwise
    print(url, flush=True)
    run(application(deployment, replica, Tokens()), replica, sockets)


if __name__ == "__main__":
    main()
