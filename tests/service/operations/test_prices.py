"""What an operation costs on the event loop, in steps of Python's interpreter: the same however much is stored.

Steps are counted, not seconds, so that this holds on a busy machine. The time is measured by `benchmarks.waits`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import selectors
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from milepost_server.blobs.collector import collect
from milepost_server.http.job_metrics import JobMetrics
from milepost_server.http.metrics import Metrics
from milepost_server.model.records import (
    Handle,
    Lock,
    Record,
    Session,
    Store,
    Upload,
    handle_key,
    session_key,
    store_key,
)
from milepost_server.model.records import upload_key as key_of_upload
from milepost_server.model.requests.base import Attempt
from milepost_server.model.requests.handles import Clear, LockHandle, ReleaseAll
from milepost_server.model.requests.sessions import EndSession
from milepost_server.replica import maintenance
from milepost_server.replica.submitter import Caller
from tests.support.servers.replicas import PROMPT, Rig, embedded, rig

pytestmark = pytest.mark.anyio

FEW, MANY = 60, 3000
BEGINNING_SECONDS = 0.2
"""What a leadership begins with, such as a look at the deployment marker, is done by then, as a rule."""
QUIET = replace(PROMPT, expire_interval_seconds=3600.0, deletion_interval_seconds=3600.0)
"""Nothing is done beside what is asked for."""
STORE, OTHER, CALLER = "store", "other", Caller(Attempt("few"))
Operation = Callable[[Rig], Awaitable[object]]


async def filled(running: Rig, count: int) -> None:
    """So many handles, sessions, stores, uploads and tombstones in memory, as if they had been loaded; and a few of a
    session and store of their own.
    """
    few = [session_key("few"), session_key("standby")]
    changes: list[tuple[str, Record | None]] = [(key, Session(key.partition("/")[2], 6000.0, 1)) for key in few]
    changes += [(store_key(store), Store(store)) for store in (STORE, OTHER)]
    for number in range(count):
        session = Session(f"s{number:05}", 6000.0, 1)
        changes.append((session_key(session.id), session))
        changes.append((store_key(f"z{number:05}"), Store(f"z{number:05}")))
        changes.append((handle_key(STORE, f"h{number:05}"), handle(f"h{number:05}", session)))
        changes.append((handle_key(STORE, f"gone{number:05}"), handle(f"gone{number:05}", session, gone=True)))
        changes.append((key_of_upload(OTHER, str(number)), Upload(str(number), f"u{number}", 1, "", "few", 9.0, 1)))
    for number in range(5):
        changes.append((handle_key(OTHER, f"h{number}"), handle(f"h{number}", Session("few", 6000.0, 1))))
    state = running.replica.journal.read().view.state
    state.apply(changes)
    running.replica.leases.clear()
    for each in state.sessions.values():
        running.replica.leases.begin(each)
    for store, upload in state.pending_uploads():
        running.replica.uploads.begin(store, upload)
    for number in range(count):
        running.replica.deletions.schedule(f"blob/{number}", 600.0)


def handle(name: str, session: Session, *, gone: bool = False) -> Handle:
    locks = () if gone else (Lock(session.id, session.created_revision, 1),)
    blob = "" if gone else f"blob-{name}"
    return Handle(name, f"l.{name}", blob, 1, "", "", "", 1, 1, locks=locks, gone=gone)


async def campaign(running: Rig) -> None:
    await running.operations.epochs.campaign(CALLER, STORE, 0.0)


async def clear_and_scrub(running: Rig) -> None:
    """What was cleared is only marked; its records are dropped when they are old enough, which is not yet."""
    await running.operations.perform(Clear(Attempt("few"), STORE, 1))
    await maintenance.scrub_all(running.replica.journal, running.clock)


async def look_for_what_is_due(running: Rig) -> None:
    replica = running.replica
    assert not replica.leases.begin_expiry()
    assert not replica.uploads.begin_expiry()
    assert not replica.deletions._deadlines.waiting(running.clock())


async def collected(running: Rig) -> int:
    replica = running.replica
    return await collect(
        replica.journal,
        running.pointers,
        running.blobs,
        replica.deletions,
        replica.loop_time,
        older_than=0.0,
        may_go_on=replica.journal.lease_holds,
        ready=replica.manifests.ready,
    )


async def metrics(running: Rig) -> bytes:
    replica, jobs = running.replica, JobMetrics(running.operations.jobs)
    return await Metrics(replica.journal, replica.pointers, replica.blobs, jobs).text(named=True)


async def lock_all(running: Rig) -> None:
    """Of another store than the large one, whose answer is as long as it is."""
    await running.operations.stores.lock_all(CALLER, OTHER)


async def pages(running: Rig) -> None:
    """Also behind names that are gone, which stand first."""
    assert (await running.operations.handles.list_page(STORE, "", 5)).handles[0]["name"] == "h00000"
    await running.operations.stores.list_page("", 5)


OPERATIONS: dict[str, Operation] = {
    "session": lambda running: running.operations.sessions.get("few"),
    "keepalive": lambda running: running.operations.sessions.keepalive("few", running.clock()),
    "pages": pages,
    "due": look_for_what_is_due,
    "collector": collected,
    "metrics": metrics,
    "open session": lambda running: running.operations.sessions.open(Caller(Attempt("new")), 60.0, ""),
    "lock": lambda running: running.operations.perform(LockHandle(CALLER.attempt, STORE, "h00001")),
    "release all": lambda running: running.operations.perform(ReleaseAll(CALLER.attempt, STORE)),
    "lock all": lock_all,
    "campaign": campaign,
    "end session": lambda running: running.operations.perform(EndSession(Attempt("s00003"))),
    "clear and scrub": clear_and_scrub,
}
"""In an order in which each leaves to the others what they need."""


EVENT_LOOP = (*asyncio.__path__, *concurrent.futures.__path__, str(selectors.__file__))
"""Where the event loop's own code lies. How often it wakes, and when it sweeps cancelled timers out of its heap, has
nothing to do with what is stored."""


class Steps:
    """Counts the steps of everything that runs in this thread, but for the event loop itself."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Steps:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename.startswith(EVENT_LOOP):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._stepped

    def _stepped(self, _frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any]:
        self.count += 1
        return self._stepped


async def prices(directory: Path, count: int) -> dict[str, int]:
    """The steps of each operation with so much stored."""
    found: dict[str, int] = {}
    async with rig(embedded(directory), QUIET) as running:
        await filled(running, count)
        await asyncio.sleep(BEGINNING_SECONDS)
        for name, operation in OPERATIONS.items():
            with Steps() as steps:
                await operation(running)
            found[name] = steps.count
    return found


async def test_the_price_of_an_operation_does_not_grow_with_what_is_stored(tmp_path: Path) -> None:
    """What the loop does beside it counts as well, now with this operation and now with that; so the least counts."""
    few, many = dict.fromkeys(OPERATIONS, sys.maxsize), dict.fromkeys(OPERATIONS, sys.maxsize)
    for attempt in range(5):
        for least, count in ((few, FEW), (many, MANY)):
            for name, steps in (await prices(tmp_path / f"{attempt}-{count}", count)).items():
                least[name] = min(least[name], steps)
        grown = {name: (few[name], many[name]) for name in OPERATIONS if many[name] > 1.1 * few[name] + 500}
        if not grown:
            return
    pytest.fail(f"steps with little and with much: {grown}")


async def test_scrubbing_goes_on_until_nothing_is_left_to_drop(tmp_path: Path) -> None:
    """However many names were removed since the last time."""
    async with rig(embedded(tmp_path)) as running:
        await filled(running, 450)
        state = running.replica.journal.read().view.state
        await running.operations.perform(Clear(CALLER.attempt, STORE, CALLER.epoch))
        assert len(list(state.gone(10**9))) == 450
        running.clock.advance(601.0)
        await maintenance.scrub_all(running.replica.journal, running.clock)
        assert not state.stores_with_cleared()
        assert not [key for key in state.records if key.startswith(handle_key(STORE, ""))]
