"""Watch a store: emit its events, and where the service has no history, the difference between two readings."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from milepost.core.calls import answers, file_answers
from milepost.core.calls.calls import Reply
from milepost.core.calls.outages import OUTAGES
from milepost.core.calls.request import Request, checked_name
from milepost.core.effects import Emit, Operation, Sleep
from milepost.core.event_stream import EventStream, store_event
from milepost.core.store_calls import StoreCalls
from milepost.errors import Compacted, DeadlineExceeded, NotExist
from milepost.operations.files import GET_SNAPSHOTS
from milepost.operations.handles import GET_ALL_HANDLES, GET_EPOCH, GET_HANDLE, WATCH_STORE
from milepost.types import Epoch, Handle, Savepoint, Snapshot, StoreEvent
from milepost.wire import MAX_PAGE, Header

_HANDLES: Final = frozenset({"added", "replaced", "removed", "cleared"})
_EPOCHS: Final = frozenset({"epoch-granted", "epoch-ended"})
_WISHES: Final = {"stop-requested": "stop", "hand-over-requested": "hand-over", "started": ""}
"""The events about wishes, each with the kind of the wish that counts after it."""
_LONGEST_PAUSE: Final = 2.0
LEAST_TO_ASK: Final = 1.0  # the least seconds to spend on a call, however short the rest of the time is

Version = tuple[str, int | None]
"""The version of a handle, and the epoch under which it was written."""


@dataclass
class StoreReading:
    """What a client knows of a store: its handles, its epoch, its snapshots and savepoints.

    These were read one after the other while the store may have changed. So a reading also has the revision of each
    part: of each page of handles, in the order of their last names, of the epoch, and of the tree. Events of a part up
    to its revision are part of what was read.
    """

    handles: dict[str, Version] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    epoch: Epoch = field(default_factory=lambda: Epoch(0))
    wish: tuple[str, int] | None = None
    """The kind of the wish about the driver, and the epoch that shall end."""
    snapshots: list[Snapshot] = field(default_factory=list)
    savepoints: dict[str, int] = field(default_factory=dict)
    pages: list[tuple[str, int]] = field(default_factory=list)
    epoch_revision: int = 0
    tree_revision: int = 0
    taken: list[Snapshot] = field(default_factory=list)
    """The snapshots of the newest revision with an event ``snapshot-taken``."""

    @property
    def revision(self) -> int:
        """The revision after which events may be missing in what was read."""
        return min(self.epoch_revision, self.tree_revision, *(revision for _, revision in self.pages))

    def apply(self, event: StoreEvent) -> list[StoreEvent]:
        """Apply an event to the reading, and return the events to emit: none if the reading reflects the event
        already.
        """
        if event.type == "cleared":
            return self._clear(event)
        if event.type in _HANDLES:
            return [event] if self._apply_to_handles(event) else []
        if event.type in _EPOCHS:
            if event.revision <= self.epoch_revision:
                return []
            session = event.data.get("session") if event.type == "epoch-granted" else None
            self.epoch = Epoch(event.epoch or 0, session if isinstance(session, str) else None)
            if self.wish is not None and self.wish[0] == "hand-over":
                self.wish = None
            return [event]
        if event.type in _WISHES:
            if event.revision <= self.epoch_revision:
                return []
            kind = _WISHES[event.type]
            self.wish = (kind, event.epoch or 0) if kind else None
            return [event]
        if event.revision <= self.tree_revision:
            return []
        name, snapshot = event.name or "", event.data.get("snapshot")
        if event.type == "savepoint-made":
            self.savepoints[name] = snapshot if isinstance(snapshot, int) else 0
        elif event.type == "savepoint-dropped":
            self.savepoints.pop(name, None)
        elif event.type == "snapshot-taken":
            # a later reading has this snapshot and all newer ones; the next event may be of the same revision
            directory, batch = event.data.get("directory"), event.data.get("batch")
            if isinstance(directory, str) and isinstance(batch, int):
                self.taken = [each for each in self.taken if each.revision == event.revision]
                self.taken.append(Snapshot(directory, batch, event.revision))
            self.tree_revision = event.revision - 1
        return [event]

    def _apply_to_handles(self, event: StoreEvent) -> bool:
        name = event.name or ""
        if event.revision <= self._read_at(name):
            return False
        self.damaged.discard(name)
        if event.type == "removed":
            self.handles.pop(name, None)
        else:
            self.handles[name] = event.version or "", event.epoch
        return True

    def _clear(self, event: StoreEvent) -> list[StoreEvent]:
        """Remove all handles that were read before the event. If some pages of handles were read after the event, the
        handles of the other pages are removed by one event each.
        """
        gone = {name: each for name, each in self.handles.items() if event.revision > self._read_at(name)}
        self.handles = {name: each for name, each in self.handles.items() if name not in gone}
        if event.revision > max(revision for _, revision in self.pages):
            self.damaged.clear()
            return [event]
        return [
            replace(event, type="removed", name=name, version=version, epoch=epoch)
            for name, (version, epoch) in sorted(gone.items())
        ]

    def _read_at(self, name: str) -> int:
        """Return the revision of the page that has the handle ``name``, or would have it."""
        index = bisect_left(self.pages, name, hi=len(self.pages) - 1, key=lambda page: page[0])
        return self.pages[index][1]

    def differences(self, new: StoreReading) -> Iterator[StoreEvent]:
        """Yield an event for each difference between this reading and a later one."""
        for name in sorted(self.handles.keys() | new.handles.keys()):
            was, is_ = self.handles.get(name), new.handles.get(name)
            at = new._read_at(name)
            if is_ is not None and was is None:
                yield _made("added", at, name=name, version=is_[0], epoch=is_[1])
            elif is_ is not None and was is not None and was[0] != is_[0]:
                yield _made("replaced", at, name=name, version=is_[0], epoch=is_[1])
            elif was is not None and is_ is None and name not in new.damaged:
                yield _made("removed", at, name=name, version=was[0], epoch=was[1])
        yield from self._differences_of_epoch(new)
        yield from self._differences_of_tree(new)

    def _differences_of_epoch(self, new: StoreReading) -> Iterator[StoreEvent]:
        was, is_, at = self.epoch, new.epoch, new.epoch_revision
        if was.session is not None and (was.epoch, was.session) != (is_.epoch, is_.session):
            yield _made("epoch-ended", at, epoch=was.epoch, session=was.session, reason="unknown")
        if is_.epoch > was.epoch:
            yield _made("epoch-granted", at, epoch=is_.epoch, session=is_.session)
        if new.wish is not None and new.wish != self.wish:
            kind, epoch = new.wish
            yield _made(f"{kind}-requested", at, epoch=epoch)
        elif new.wish is None and self.wish is not None and self.wish[0] == "stop":
            yield _made("started", at)

    def _differences_of_tree(self, new: StoreReading) -> Iterator[StoreEvent]:
        at = new.tree_revision
        for snapshot in sorted(new.snapshots, key=lambda each: (each.revision, each.directory, each.batch)):
            if snapshot.revision > self.tree_revision and snapshot not in self.taken:
                yield _made("snapshot-taken", at, directory=snapshot.directory, batch=snapshot.batch)
        for name in sorted(self.savepoints.keys() | new.savepoints.keys()):
            was, is_ = self.savepoints.get(name), new.savepoints.get(name)
            if was is not None and was != is_:
                yield _made("savepoint-dropped", at, name=name, snapshot=was)
            if is_ is not None and was != is_:
                yield _made("savepoint-made", at, name=name, snapshot=is_)


def _made(type_: str, revision: int, **data: Any) -> StoreEvent:
    """Return an event that the client made from the difference between two readings. It has no id."""
    return StoreEvent(
        type=type_,
        revision=revision,
        id=None,
        name=data.get("name"),
        version=data.get("version"),
        epoch=data.get("epoch"),
        data={"revision": revision, **data},
    )


def read_store(calls: StoreCalls, timeout: float | None = None) -> Operation[StoreReading]:
    """Read the handles, the epoch, the snapshots and the savepoints of a store, each call within ``timeout``."""
    found = StoreReading()
    token: str | None = None
    while True:
        call = calls.at(GET_ALL_HANDLES, limit=MAX_PAGE, token=token)
        page = yield from calls.caller.call(Request(*call, answers.document(answers.page(token))), timeout=timeout)
        handles, corrupt, token = page.value
        for handle in handles:
            if not handle.removing:
                found.handles[handle.name] = handle.version, handle.epoch
        names = [each.name for each in corrupt]
        found.damaged.update(names)
        names += [each.name for each in handles]
        last = max(names, default="")
        found.pages.append((last, _revision(page)))
        if token is None:
            break
    epoch = yield from calls.caller.call(
        Request(*calls.at(GET_EPOCH), answers.document(answers.epoch)), timeout=timeout
    )
    found.epoch, found.epoch_revision = epoch.value, _revision(epoch)
    wish = epoch.value.wish
    found.wish = None if wish is None else (wish.kind, wish.epoch)
    reader = answers.document(file_answers.kept_snapshots)
    tree = yield from calls.caller.call(Request(*calls.at(GET_SNAPSHOTS), reader), timeout=timeout)
    found.tree_revision = _revision(tree)
    found.snapshots = tree.value.snapshots
    kept: list[Savepoint] = tree.value.savepoints
    found.savepoints = {each.name: each.snapshot.revision for each in kept}
    return found


def _revision(reply: Reply[Any]) -> int:
    return int(reply.answer.headers[Header.REVISION.lower()])


def watch(calls: StoreCalls, after: str | int | None, existing: bool, timeout: float | None) -> Operation[None]:
    """Emit each `StoreEvent` of a store, until ``timeout`` seconds after the store was first read; None for no end.
    That first reading may take as long, or the client's timeout if that is shorter or ``timeout`` is 0 or None.

    With ``existing``, an event is emitted first for each handle, epoch, snapshot and savepoint that is there. Where the
    service does not know what happened, the events are made from the difference between two readings, so none is lost
    and none comes twice, but several changes of one handle may be one event. With ``after``, a place from an earlier
    event, nothing is read, and the operation raises `Compacted` instead.
    """
    clock = calls.caller.clock
    known: StoreReading | None = None
    if after is None:
        known = yield from read_store(calls, min(timeout, calls.caller.timeout) if timeout else None)
        if existing:
            for event in StoreReading(pages=[("", 0)]).differences(known):
                yield Emit(event)
    deadline = math.inf if timeout is None else clock() + timeout
    stream = store_stream(calls, str(after) if known is None else str(known.revision), deadline)
    fruitless = 0
    while True:
        try:
            found = yield from stream.next()
        except Compacted:
            if known is None:
                raise
            if fruitless:
                yield Sleep(min(calls.caller.pause(fruitless, _LONGEST_PAUSE), max(0.0, deadline - clock())))
            fruitless += 1
            new = yield from _reading(calls, deadline)
            if new is None:
                return
            for event in known.differences(new):
                yield Emit(event)
            known, stream.place = new, str(new.revision)
            continue
        if found is None:
            return
        fruitless = 0
        for event in [found] if known is None else known.apply(found):
            yield Emit(event)


def store_stream(calls: StoreCalls, place: str | None, deadline: float) -> EventStream[StoreEvent]:
    """Return the stream of the events of a store after ``place``, which ends at ``deadline`` (monotonic)."""
    name = f"store {calls.store}"
    return EventStream(calls.caller, calls.at(WATCH_STORE), name, store_event, place, deadline)


def _reading(calls: StoreCalls, deadline: float) -> Operation[StoreReading | None]:
    """Read the store; an outage does not end the attempt, but the deadline does, and the result is then None."""
    clock, fruitless = calls.caller.clock, 0
    while (left := deadline - clock()) > 0:
        try:
            return (yield from read_store(calls, min(calls.caller.timeout, left)))
        except OUTAGES:
            fruitless += 1
            yield Sleep(min(calls.caller.pause(fruitless, _LONGEST_PAUSE), max(0.0, deadline - clock())))
    return None


def wait_for(calls: StoreCalls, name: str, other_than: str | None, timeout: float | None) -> Operation[Handle]:
    """Wait until a handle exists with another version than ``other_than``, and return its record. Raises
    `DeadlineExceeded` after ``timeout`` seconds; None is the client's.
    """
    clock = calls.caller.clock
    seconds = calls.caller.timeout if timeout is None else timeout
    deadline = clock() + seconds
    handle = Request(*calls.at(GET_HANDLE, checked_name(name)), answers.document(answers.handle_named(name)))
    # any read of the store tells its revision, and what comes after it is in the stream
    epoch = Request(*calls.at(GET_EPOCH), answers.document(answers.epoch))
    stream = store_stream(calls, None, deadline)
    fruitless = 0
    while (left := deadline - clock()) > 0:
        try:
            if stream.place is None:
                stream.place = str(_revision((yield from calls.caller.call(epoch, timeout=left))))
            reply = yield from calls.caller.call(handle, timeout=max(LEAST_TO_ASK, deadline - clock()))
            if reply.value.version != other_than:
                return reply.value
        except NotExist:
            pass
        except OUTAGES:
            fruitless += 1
            yield Sleep(min(calls.caller.pause(fruitless, _LONGEST_PAUSE), max(0.0, deadline - clock())))
            continue
        try:
            while (event := (yield from stream.next())) is not None:
                if event.name == name and event.type in ("added", "replaced") and event.version != other_than:
                    break
        except Compacted:
            stream.place = None
    raise DeadlineExceeded(f"the handle {name!r} had no other version within {seconds:.3g} s")
