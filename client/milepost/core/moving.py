"""The steps by which a job is moved from one cell to another, as operations (docs/decisions/0124).

The job's records and blobs pass through this process, a page and a blob at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, Final

from milepost.core.body import body_of
from milepost.core.calls import answers, members
from milepost.core.calls.cells import placement
from milepost.core.calls.request import Request, json_body
from milepost.core.effects import Lost, Operation, Read, Work
from milepost.core.store_calls import JSON, StoreCalls
from milepost.errors import BlobMissing, Corrupt, MilepostError, StateTruncated, Unavailable
from milepost.operations.handles import (
    BEGIN_ARRIVAL,
    BEGIN_DEPARTURE,
    END_DEPARTURE,
    FINISH_ARRIVAL,
    LIST_RECORDS,
    READ_BLOB,
    WRITE_BLOB,
    WRITE_RECORDS,
)
from milepost.wire import Code

_TRIES: Final = 5
"""How often a blob is read whose transfer is cut."""

_CLEARING_SECONDS: Final = 20.0
"""How long the new cell may drop what the job left there at an earlier stay, before it answers."""

Open = Callable[[], BinaryIO]
"""Opens a new temporary file for the bytes of one blob; it is gone once it is closed."""


@dataclass(frozen=True)
class _Page:
    """A page of the records of a job. ``departing`` is what the cell says of the job as a whole."""

    departing: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]]
    next: str | None


@dataclass(frozen=True)
class _Blob:
    """A blob that a record names: its key in the old cell, its size in bytes, and its digest. ``of_file``: it has the
    bytes of a file, not of a handle.
    """

    key: str
    size: int
    sha256: str
    of_file: bool


@dataclass
class Copied:
    """How many records and blobs were copied, and how many bytes these have."""

    records: int = 0
    blobs: int = 0
    bytes: int = 0
    keys: dict[str, str] = field(default_factory=dict, repr=False)
    """The keys of the blobs in the new cell, by those in the old one."""


def freeze(source: StoreCalls, move: str, to: str, timeout: float | None = None) -> Operation[None]:
    """Freeze the job in the old cell, under the epoch that the session holds there."""
    body = json_body({"move": move, "to": to})
    headers = {**JSON, **source.epoch_header()}
    yield from source.send(*source.at(BEGIN_DEPARTURE), answers.whatever, headers, body, timeout=timeout)


def copy(
    source: StoreCalls, target: StoreCalls, move: str, cell: str, opened: Open, timeout: float | None = None
) -> Operation[Copied]:
    """Copy all that the frozen job has in the cell ``cell`` to the other cell, and compare both. Each call takes
    ``timeout`` seconds at most, beside the time for its bytes. Raises `Corrupt` if the copy differs.
    """
    done = Copied()
    digest = hashlib.sha256()
    page = yield from _page(source, None, timeout)
    yield from _arrive(source, target, move, cell, page.departing, timeout)
    while True:
        yield from _write(source, target, move, page, done, opened, timeout)
        done.records += len(page.records)
        digest.update(_same(page))
        if page.next is None:
            break
        page = yield from _page(source, page.next, timeout)
    if digest.digest() != (yield from _digest(target, timeout)):
        raise _differs(source.store)
    body = json_body({"move": move, "records": [], "complete": True})
    yield from target.send(*target.at(WRITE_RECORDS), answers.whatever, JSON, body, timeout=timeout)
    return done


def _write(
    source: StoreCalls,
    target: StoreCalls,
    move: str,
    page: _Page,
    done: Copied,
    opened: Open,
    timeout: float | None,
) -> Operation[None]:
    """Copy the blobs of a page, and write its records. If the new cell has another leader meanwhile, which may have
    collected the blobs that no record names yet, they are copied again.
    """
    blobs = {blob.key: blob for blob in _blobs(page.records)}
    for left in reversed(range(_TRIES)):
        for key in [key for key in blobs if key not in done.keys]:
            done.keys[key] = yield from _copy_blob(source, target, move, blobs[key], opened, timeout)
            done.blobs, done.bytes = done.blobs + 1, done.bytes + blobs[key].size
        named = {key: done.keys[key] for key in blobs}
        body = json_body({"move": move, "records": list(page.records), "blobs": named})
        try:
            yield from target.send(*target.at(WRITE_RECORDS), answers.whatever, JSON, body, timeout=timeout)
        except (BlobMissing, Unavailable):
            if not left:
                raise
            for key in blobs:
                del done.keys[key]
        else:
            return


def leave(source: StoreCalls, move: str, timeout: float | None = None) -> Operation[str]:
    """Set the tombstone in the old cell, and return its seal. From then on the job is in the other cell."""
    call, reader = source.at(END_DEPARTURE, move=move), answers.document(placement)
    moved = (yield from source.send(*call, reader, source.epoch_header(), timeout=timeout)).value
    return moved.seal or ""


def finish(target: StoreCalls, seal: str, timeout: float | None = None) -> Operation[None]:
    """Let the job be in the new cell. The seal proves that the old cell has the tombstone."""
    call, body = target.at(FINISH_ARRIVAL), json_body({"seal": seal})
    yield from target.send(*call, answers.whatever, JSON, body, timeout=timeout)


def _arrive(
    source: StoreCalls, target: StoreCalls, move: str, cell: str, departing: Mapping[str, Any], timeout: float | None
) -> Operation[None]:
    body = json_body({"move": move, "source": cell, "epoch": source.epoch, "departing": departing})
    call = target.at(BEGIN_ARRIVAL)
    yield from target.send(*call, answers.whatever, JSON, body, timeout=timeout, wait=_CLEARING_SECONDS)


def _page(calls: StoreCalls, token: str | None, timeout: float | None) -> Operation[_Page]:
    call = calls.at(LIST_RECORDS, token=token)
    return (yield from calls.send(*call, answers.document(_page_of(token)), timeout=timeout)).value


def _page_of(token: str | None) -> Callable[[members.Document], _Page]:
    def read(document: members.Document) -> _Page:
        records = members.entries(document, "records")
        if not all(isinstance(each, dict) and isinstance(each.get("record"), dict) for each in records):
            raise TypeError("a record is not an object")
        return _Page(document["departing"], records, members.next_page(document, token))

    return read


def _blobs(records: Sequence[Mapping[str, Any]]) -> Iterator[_Blob]:
    for each in records:
        record = each["record"]
        if each["kind"] == "handle" and record.get("data") is None:
            yield _Blob(record["blob"], record["size"], record["sha256"], of_file=False)
        for entry in record.get("entries", ()) if each["kind"] == "file" else ():
            if entry.get("blob"):
                yield _Blob(entry["blob"], entry["size"], entry["sha256"], of_file=True)


def _copy_blob(
    source: StoreCalls, target: StoreCalls, move: str, blob: _Blob, opened: Open, timeout: float | None
) -> Operation[str]:
    """Copy a blob by way of a temporary file, and return its key in the new cell."""
    file: BinaryIO = yield Work(opened)
    try:
        yield from _read_into(file, source, blob, timeout)
        query = {"move": move, "file": "true" if blob.of_file else None}
        body = body_of(file)
        reader = answers.document(lambda document: members.text(document, "key"), 201)
        return (yield from target.send(*target.at(WRITE_BLOB, **query), reader, body=body, timeout=timeout)).value
    finally:
        yield Work(file.close)


def _read_into(file: BinaryIO, source: StoreCalls, blob: _Blob, timeout: float | None) -> Operation[None]:
    """Read a blob of the old cell into a file, and begin again if the connection breaks."""
    call = source.at(READ_BLOB, key=blob.key, size=blob.size, digest=blob.sha256)
    for left in reversed(range(_TRIES)):
        yield Work(lambda: (file.seek(0), file.truncate()))
        request = Request(*call, answers.whatever)
        reply = yield from source.caller.call(request, stream=True, timeout=timeout)
        digest, size = hashlib.sha256(), 0
        trouble: Lost | None = None
        while reply.answer.stream is not None:
            chunk = yield Read(reply.answer.stream, source.caller.attempt_timeout)
            if isinstance(chunk, Lost):
                trouble = chunk
            if not isinstance(chunk, bytes) or not chunk:
                break
            digest.update(chunk)
            size += len(chunk)
            yield Work(partial(file.write, chunk))
        if size == blob.size and digest.hexdigest() == blob.sha256:
            yield Work(lambda: file.seek(0))
            return
        if not left:
            reason = "it ended early, or its bytes do not match its digest" if trouble is None else trouble.reason
            raise StateTruncated(f"a blob of {source.store!r} could not be copied: {reason}")


def _digest(calls: StoreCalls, timeout: float | None) -> Operation[bytes]:
    """Read all records of the job in one cell, and return their digest."""
    token, digest = None, hashlib.sha256()
    while True:
        page = yield from _page(calls, token, timeout)
        digest.update(_same(page))
        if (token := page.next) is None:
            return digest.digest()


def _differs(job: str) -> MilepostError:
    detail = f"the copy of {job!r} is not what the old cell has: the job stays there. Begin the move again"
    return Corrupt(Code.CORRUPT, detail)


def _same(page: _Page) -> bytes:
    """Return the records of a page as bytes that are the same in both cells, wherever pages end: without the keys of
    blobs.
    """
    lines = bytearray()
    for record in page.records:
        content = {name: value for name, value in record["record"].items() if name != "blob"}
        if record["kind"] == "file":
            entries = content.get("entries", ())
            content["entries"] = [{name: each[name] for name in each if name != "blob"} for each in entries]
        lines += json.dumps([record["kind"], content], sort_keys=True).encode()
    return bytes(lines)
