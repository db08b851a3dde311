"""The operations by which a job is moved from one cell to another (docs/decisions/0124).

The client that moves the job reads its records and blobs from the old cell, and writes them to the new one. So the
cells need no access to each other.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from milepost.wire import Code
from milepost_backends.contract import BlobStore
from milepost_server.basics.problems import problem, refusal
from milepost_server.blobs.delivery import bytes_of_small, deliver
from milepost_server.blobs.intake import Incoming, take_in
from milepost_server.blobs.keys import blob_key, file_key, place_of
from milepost_server.journal import Journal
from milepost_server.memory.state import State
from milepost_server.model.history import ACTS, BATCHES, HistoryPage, page_key
from milepost_server.model.moves import ARRIVING, CLEARING, Move, sealed
from milepost_server.model.paths import path_key
from milepost_server.model.records import Corrupt, Store
from milepost_server.model.requests.base import LEADER, BlobRef
from milepost_server.model.requests.moves import (
    BeginArrival,
    BeginDeparture,
    DropLeft,
    EndDeparture,
    FinishArrival,
    ImportRecords,
)
from milepost_server.model.trees import Tree, TreePath
from milepost_server.operations.dropping import Dropping
from milepost_server.operations.moved_records import arriving, as_json, of_handle, of_path, of_tree
from milepost_server.replica.submitter import Caller, Reply, Submitter, commit, reply_of
from milepost_server.replica.trees.manifests import Manifests
from milepost_server.rules.decisions import Answer
from milepost_server.rules.guards import is_frozen, store_readable
from milepost_server.rules.handlers.handles import present
from milepost_server.rules.trees.maintenance import trimmed_of

MOST_RECORDS: Final = 200
MOST_BYTES: Final = 64 * 1024
"""The most records of one page, and about how many bytes they may have: they are written in one commit, and some
pointer stores take 256 KiB.
"""

_MOST_LOOKED_AT: Final = 2000
"""One page looks at this many records at most. It leaves out those that nobody can see any more."""

_MOST_DROPPED: Final = 200
_CLEARING_SECONDS: Final = 15.0
_MOST: Final = 2**63

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moved:
    """A record that comes from the old cell: its kind, and the record as JSON."""

    kind: str
    record: Mapping[str, Any]


class MovingOperations:
    """The operations on the records and blobs of a job that is moved."""

    def __init__(
        self,
        journal: Journal,
        blobs: BlobStore,
        submitter: Submitter,
        manifests: Manifests,
        dropping: Dropping,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._blobs = blobs
        self._submitter = submitter
        self._manifests = manifests
        self._dropping = dropping

    async def freeze(self, caller: Caller, job: str, move: str, to: str) -> Reply:
        """Freeze a job that is moved to the cell ``to``. Raises the problems of `Submitter.perform`."""
        seal = secrets.token_hex(16)
        return await self._submitter.perform(BeginDeparture(caller.attempt, job, move, caller.epoch, to, seal))

    async def records(self, job: str, after: str) -> Reply:
        """Return a page of the records of a job that leaves or arrives, those after the place ``after``.

        The pages of both cells are the same but for the keys of blobs. Raises ``fenced`` problems for a job that is not
        being moved, and ``corrupt`` ones for a damaged record.
        """
        await self._manifests.ready(job)
        reading = self._journal.read()
        store = self._moving(reading.view.state, job)
        if reading.view.state.has_unreadable(job):
            raise problem(Code.CORRUPT, f"{job!r} has damaged records: repair them first")
        found: list[tuple[str, msgspec.Struct]] = []
        size, following = 0, None
        for looked_at, (place, kind, record) in enumerate(_records(reading.view.state, store, after), 1):
            if record is not None:
                found.append((kind, record))
                size += len(msgspec.json.encode(record)) + _bytes_elsewhere(record)
            if len(found) >= MOST_RECORDS or size >= MOST_BYTES or looked_at >= _MOST_LOOKED_AT:
                following = place
                break
        records = [{"kind": kind, "record": as_json(await self._with_bytes(record))} for kind, record in found]
        departing = {
            "revision": reading.revision,
            "sealed": "" if store.move is None else _sealed(store.move),
            "granted": store.granted,
            "dropped": store.dropped,
            "wish": None if store.wish is None else as_json(store.wish),
        }
        body = {"job": job, "departing": departing, "records": records, "next": following}
        return Reply(Answer(body), reading.revision, reading.term)

    async def _with_bytes(self, record: msgspec.Struct) -> msgspec.Struct:
        """Return the record of a path in which each small file has its bytes, also if a blob has them with others."""
        if not isinstance(record, TreePath):
            return record
        entries = [
            each
            if each.start is None
            else replace(each, data=await bytes_of_small(self._blobs, each), blob="", start=None)
            for each in record.entries
        ]
        return replace(record, entries=tuple(entries))

    async def blob(self, job: str, ref: BlobRef) -> AsyncIterator[bytes]:
        """Return the bytes of a blob that a record of a leaving job names. Raises the problems of `deliver`."""
        await self._manifests.ready(job)
        state = self._journal.state()
        self._moving(state, job)
        place = place_of(ref.key)
        if place is None or place.store != job or not state.names_blob(job, ref.key):
            raise problem(Code.NOT_EXIST, f"no record of {job!r} names this blob")
        return await deliver(self._blobs, ref)

    async def put_blob(self, job: str, move: str, incoming: Incoming, *, of_file: bool) -> str:
        """Store a blob of an arriving job, and return its key. Until a record names it, it is as one that no record
        needs. Raises the problems of `take_in`.
        """
        self._arriving(job, move)
        fresh: Callable[[str, str, int], str] = file_key if of_file else blob_key
        key = fresh(self._journal.deployment, job, self._journal.term)
        return (await take_in(self._blobs, key, incoming, None)).key

    async def arrive(self, request: BeginArrival) -> Reply:
        """Begin the copy of a job, once what an earlier stay or copy left here is dropped. Raises the problems of
        `Submitter.perform`, and ``too-many-requests`` if that takes long: the request then goes on where it was.
        """
        deadline = self._clock() + _CLEARING_SECONDS
        while True:
            reply = await self._submitter.perform(request)
            store = self._journal.state().store(request.store_name)
            if not isinstance(store, Store) or store.move is None or store.move.phase != CLEARING:
                return reply
            while keys := self._left(request.store_name):
                if self._clock() >= deadline:
                    detail = f"what {request.store_name!r} left in this cell earlier is still being dropped"
                    raise problem(Code.TOO_MANY_REQUESTS, detail)
                await commit(self._journal, DropLeft(LEADER, request.store_name, keys), self._clock)

    def _left(self, job: str) -> tuple[str, ...]:
        """Return the keys of some records that a job has left here."""
        state = self._journal.state()
        files = (path_key(job, path) for path in state.paths(job, ""))
        return tuple(islice(chain(state.cleared(job, _MOST), files, state.damaged_paths(job)), _MOST_DROPPED))

    async def write(
        self,
        caller: Caller,
        job: str,
        move: str,
        records: Sequence[Moved],
        blobs: Mapping[str, str],
        *,
        complete: bool = False,
    ) -> Reply:
        """Write records of an arriving job, whose blobs have the keys ``blobs`` here, by those that they had in the old
        cell. With ``complete``, they are the last ones. Raises ``invalid-request`` problems for what no record can be,
        and those of `Submitter.perform`.

        A blob that no record names yet may have been collected once another leadership has begun. Then this raises a
        ``blob-missing`` problem, and the blobs must be put again.
        """
        await self._manifests.ready(job)
        found, generation = self._arriving(job, move), self._journal.generation
        state, first_term = self._journal.state(), self._journal.first_term
        for key in blobs.values():
            place = place_of(key)
            if place is None or (place.deployment, place.store) != (self._journal.deployment, job):
                raise problem(Code.INVALID_REQUEST, f"{key[:80]!r} is no blob of {job!r} in this cell")
            if place.term < first_term and not state.names_blob(job, key):
                raise problem(Code.BLOB_MISSING, f"the blob {key!r} was put under an earlier leader: put it again")

        def blob_of(key: str) -> str:
            if key not in blobs:
                raise ValueError(f"the blob {key[:80]!r} was not copied")
            return blobs[key]

        written = dict(arriving(job, each.kind, each.record, found.newest, blob_of) for each in records)
        request = ImportRecords(caller.attempt, job, move, written, complete)
        return reply_of(await self._submitter.submit_and_wait(request, generation))

    async def finish(self, caller: Caller, job: str, seal: str) -> Reply:
        """Let an arriving job be here. Raises ``fenced`` problems if the seal is not that of its move, or the copy is
        not complete.
        """
        store = self._journal.state().store(job)
        above = store.move.newest if isinstance(store, Store) and store.move is not None else 0
        return await self._submitter.perform(FinishArrival(caller.attempt, job, "", seal, above))

    async def leave(self, caller: Caller, job: str, move: str) -> Reply:
        """Set the tombstone of a frozen job; its blobs are deleted later. Raises the problems of `Dropping.perform`."""
        return await self._dropping.perform(EndDeparture(caller.attempt, job, move, caller.epoch))

    def _moving(self, state: State, job: str) -> Store:
        """Return the record of a job that is frozen, or that arrives."""
        store = state.store(job)
        if isinstance(store, Corrupt) and (damaged := store_readable(state, job)):
            raise refusal(damaged)
        move = store.move if isinstance(store, Store) else None
        if isinstance(store, Store) and move is not None and (move.phase == ARRIVING or is_frozen(state, store)):
            return store
        raise problem(Code.FENCED, f"the job {job!r} is not being moved")

    def _arriving(self, job: str, move: str) -> Move:
        store = self._journal.state().store(job)
        found = store.move if isinstance(store, Store) else None
        if found is None or (found.phase, found.id) != (ARRIVING, move):
            raise problem(Code.FENCED, f"the job {job!r} does not arrive by this move")
        return found


def _records(state: State, store: Store, after: str) -> Iterator[tuple[str, str, msgspec.Struct | None]]:
    """Yield the records of a job after a place, each with its own place and its kind; None for one that is left out."""
    job = store.name
    tree = _readable(state.tree(job)) or Tree(job)
    part, _, last = after.partition(":")
    if not part:
        yield "handles:", "tree", of_tree(tree)
        part = "handles"
    if part == "handles":
        for name in state.names(job, last):
            handle = present(store, _readable(state.handle(job, name)))
            yield f"handles:{name}", "handle", None if handle is None else of_handle(handle)
        part, last = "pages", ""
    if part == "pages":
        places = [f"{log}-{number}" for log in (ACTS, BATCHES) for number in state.history_pages(job, log)]
        for place in places[places.index(last) + 1 if last in places else 0 :]:
            log, _, number = place.partition("-")
            page = _readable(state.get(page_key(job, log, int(number))))
            assert isinstance(page, HistoryPage)
            yield f"pages:{place}", "page", page
        part, last = "files", ""
    for path in state.paths(job, "", last):
        record = _readable(state.path(job, path))
        trimmed = None if record is None else trimmed_of(record, store, tree)
        yield f"files:{path}", "file", of_path(trimmed) if trimmed is not None and trimmed.entries else None


def _bytes_elsewhere(record: msgspec.Struct) -> int:
    """Return how many bytes the small files of a path have in a blob with others."""
    entries = record.entries if isinstance(record, TreePath) else ()
    return sum(entry.size for entry in entries if entry.start is not None)


def _sealed(move: Move) -> str:
    return move.seal if move.phase == ARRIVING else sealed(move.seal)


def _readable(record: T | Corrupt | None) -> T | None:
    if isinstance(record, Corrupt):
        raise problem(Code.CORRUPT, f"the record {record.name!r} is damaged: {record.reason}")
    return record
