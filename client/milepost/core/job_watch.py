"""Watch a job: emit the entries of its history, those that are kept and those that come."""

from __future__ import annotations

import math
from typing import Any, Final

from milepost.core.calls import answers, file_answers
from milepost.core.calls.calls import Caller
from milepost.core.calls.outages import OUTAGES
from milepost.core.calls.request import Request, call_of, checked_name
from milepost.core.effects import Emit, Operation, Sleep
from milepost.core.event_stream import EventStream
from milepost.errors import Compacted
from milepost.job_types import HistoryEntry
from milepost.operations.handles import GET_JOB_HISTORY, WATCH_JOB
from milepost.wire import MAX_PAGE, Header

_LONGEST_PAUSE: Final = 2.0
_LAST: Final = 2**31


def watch_job(
    caller: Caller, job: str, after: str | int | None, existing: bool, timeout: float | None
) -> Operation[None]:
    """Emit each `HistoryEntry` of a job, the oldest first, until ``timeout`` seconds after the history was first read;
    None for no end. That first reading may take as long, or the client's timeout if that is shorter or ``timeout`` is 0
    or None.

    With ``existing``, the entries that are kept come first. If the service does not keep all entries after the place
    that the client has reached, an entry ``missed`` is emitted, and the history is read anew. With ``after``, the id of
    an earlier entry, nothing is read, and the operation raises `Compacted` instead.
    """
    clock = caller.clock
    place = None if after is None else str(after)
    if place is None:
        entries, place = yield from _read(caller, job, min(timeout, caller.timeout) if timeout else None)
        for entry in entries if existing else ():
            yield Emit(entry)
    deadline = math.inf if timeout is None else clock() + timeout
    call = call_of(WATCH_JOB, checked_name(job, "store"))
    stream = EventStream(caller, call, f"job {job}", _entry_of, place, deadline)
    fruitless = 0
    while True:
        try:
            found = yield from stream.next()
        except Compacted:
            if after is not None:
                raise
            if fruitless:
                yield Sleep(min(caller.pause(fruitless, _LONGEST_PAUSE), max(0.0, deadline - clock())))
            fruitless += 1
            read = yield from _read_again(caller, job, deadline)
            if read is None:
                return
            known, (entries, stream.place) = stream.place, read
            yield Emit(HistoryEntry("missed", reason=f"the service no longer keeps all entries after {known}"))
            for entry in entries:
                if entry.kind == "damaged" or order_of(entry.id) > order_of(known):
                    yield Emit(entry)
            continue
        if found is None:
            return
        fruitless = 0
        yield Emit(found)


def _read(caller: Caller, job: str, timeout: float | None) -> Operation[tuple[list[HistoryEntry], str]]:
    """Read the history of a job, each call within ``timeout``: its entries, the oldest first, and the place after
    them.
    """
    found: list[HistoryEntry] = []
    place: str | None = None
    token: str | None = None
    while True:
        call = call_of(GET_JOB_HISTORY, checked_name(job, "store"), limit=MAX_PAGE, token=token)
        reply = yield from caller.call(Request(*call, answers.document(file_answers.history(token))), timeout=timeout)
        # entries that come meanwhile are on no later page, and the stream has them
        place = place or reply.answer.headers[Header.REVISION.lower()]
        entries, token = reply.value
        found += entries
        if token is None:
            damaged = [entry for entry in found if entry.kind == "damaged"]
            return [*damaged, *(entry for entry in reversed(found) if entry.kind != "damaged")], place


def _read_again(caller: Caller, job: str, deadline: float) -> Operation[tuple[list[HistoryEntry], str] | None]:
    """Read the history; an outage does not end the attempt, but the deadline does, and the result is then None."""
    clock, fruitless = caller.clock, 0
    while (left := deadline - clock()) > 0:
        try:
            return (yield from _read(caller, job, min(caller.timeout, left)))
        except OUTAGES:
            fruitless += 1
            yield Sleep(min(caller.pause(fruitless, _LONGEST_PAUSE), max(0.0, deadline - clock())))
    return None


def order_of(id_: str | None) -> tuple[int, int]:
    """Return what orders the ids of events: the revision, and the number in its commit."""
    revision, _, index = (id_ or "0").partition(".")
    return int(revision), int(index) if index else _LAST


def _entry_of(id_: str, type_: str, data: dict[str, Any]) -> HistoryEntry:
    """Return the entry of an event's data. The service gives entry and event the same id and kind."""
    entry = file_answers.history_entry(data)
    if (entry.id, entry.kind) != (id_, type_):
        raise ValueError("an entry that is not the one of the event")
    return entry
