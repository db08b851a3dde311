"""Looks up single keys of managed state, as a process of its own: ``python -m milepost.state.processors.lookups``.

It is for a server that stores the files of state and does not decode them itself: a malicious file can harm only this
process. It reads questions from its input, one after the other, asks the server back for the files that it needs, and
writes the answer to its output. It ends when its input ends.

The messages are those of `milepost.process_pipe`:

================================================  ======================================================================
a question of the server                          ``{"state", "key", "variable", "version", "after", "limit"}``
a request for files, to the server                ``{"ask": "handle", "name"}``, ``{"ask": "read", "name", "start",
                                                  "length"}`` or ``{"ask": "list", "name", "after"}``
the server's answer to a request                  ``{}`` and the bytes, ``{"files": [[name, size, age]], "next"}``, or
                                                  ``{"refused": KIND, "why"}``: missing, damaged, failed
the answer to the question                        ``{"answer"}``, or ``{"refusal": CODE, "why"}``: a problem code of
                                                  `milepost.wire`, or failed if a request for files failed
================================================  ======================================================================
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from milepost.process_pipe import ProcessPipe, bound_memory
from milepost.state.errors import (
    CoderError,
    FileMissing,
    FilesError,
    InvalidUse,
    StateDamaged,
    StateError,
    VersionNotFound,
)
from milepost.state.processors.reading import Entry, StateReader
from milepost.state.processors.snapshot import Snapshot, job_of, snapshots_of
from milepost.state.processors.types import key_of, row_json
from milepost.state.store.files.contract import Created, FileInfo, FilesWithin, StateFiles
from milepost.state.store.files.tree import DEFAULT_DIRECTORY

_RECORD = "job"
_PAGE_BYTES = 1024 * 1024
"""The size of a page of values in bytes of JSON: a page ends with the value that reaches it."""

_MOST_BYTES = 4 * 1024 * 1024
"""The largest size of one value in bytes of JSON. The server reads a value in one piece."""

_MEMORY = 128 * 1024 * 1024
"""The bytes of memory that lookups may use, in addition to those that the process uses when it starts."""
_TRIES = 3


class Channel(ProcessPipe):
    """The connection of the lookup process to the server, which it asks for files."""

    def ask(self, what: str, name: str, **more: int | str) -> tuple[dict[str, Any], bytes]:
        """Ask the server for a file, a part of a file or a list of files, as ``what`` says ("handle", "read" or
        "list"), and return the JSON and the bytes of its answer. Raises `FileMissing`, `StateDamaged` or `FilesError`
        if the server refuses.
        """
        self.send({"ask": what, "name": name, **more})
        received = self.receive()
        if received is None:
            raise FilesError("the server ended")
        answer, content = received
        match answer.get("refused"):
            case None:
                return answer, content
            case "missing":
                raise FileMissing(f"there is no {what} {name}")
            case "damaged":
                raise StateDamaged(name, answer["why"])
        raise FilesError(answer["why"])


class AskedFiles(StateFiles):
    """The state files in the tree of a job, as the lookup process sees them: the server reads them on request, and they
    cannot be changed.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def create(self, name: str, _content: bytes) -> Created:
        raise FilesError(f"{name} cannot be written: the files can only be read here")

    def read(self, name: str, start: int, length: int) -> bytes:
        return self._channel.ask("read", f"{DEFAULT_DIRECTORY}/{name}", start=start, length=length)[1]

    def list(self, directory: str) -> list[FileInfo]:
        files: list[FileInfo] = []
        after: str | None = ""
        while after is not None:
            page, _ = self._channel.ask("list", f"{DEFAULT_DIRECTORY}/{directory}", after=after)
            files += [FileInfo(f"{directory}/{name}", size, age) for name, size, age in page["files"]]
            after = page["next"]
        return files

    def delete(self, name: str) -> None:
        raise FilesError(f"{name} cannot be deleted: the files can only be read here")


def answered(channel: Channel, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message that answers a question of the server: ``{"answer"}``, or ``{"refusal", "why"}``."""
    record: bytes | None = None
    for _ in range(_TRIES):
        try:
            before, (_, record) = record, channel.ask("handle", _RECORD)
        except StateError as error:
            return _refusal(error)
        try:
            return {"answer": _look_up(StateReaders(channel, record), question)}
        except (VersionNotFound, FileMissing) as error:
            if record == before or question["version"] is not None:
                # a changed record means that the job has removed this snapshot: the next try reads the newest one
                return _refusal(error)
        except StateError as error:
            return _refusal(error)
        except MemoryError as error:
            why = str(error) or "it does not fit into memory"
            return {"refusal": "not-supported", "why": f"{why}: read the state with the SDK"}
    return {"refusal": "too-many-requests", "why": "the job goes on faster than its state can be read"}


class StateReaders:
    """Makes a `StateReader` for each state of a job, from the job record: the bytes of the handle that names the newest
    snapshot of each state.
    """

    def __init__(self, channel: Channel, record: bytes) -> None:
        """``record`` has the bytes of the job record, the handle in which the driver publishes its batches. Raises
        `VersionNotFound` for bytes that another program wrote, and `StateDamaged` for a job record that cannot be read.
        """
        job = job_of(record)
        if job is None:
            raise VersionNotFound(f"the handle {_RECORD!r} of this store is no job record")
        self._snapshots: Mapping[str, Snapshot] = snapshots_of(record)
        self._files = FilesWithin(AskedFiles(channel), job)

    def of(self, name: str) -> StateReader:
        """Return the reader of the state ``name``. Raises `VersionNotFound` if the job has no such state."""
        if name not in self._snapshots:
            there = ", ".join(sorted(self._snapshots)) or "none"
            raise VersionNotFound(f"the job has published no state {name!r}, but {there}")
        return StateReader(self._files, self._snapshots[name])


def _look_up(readers: StateReaders, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return one page of the values of the key in ``question``: at most ``limit`` values, without the first ``after``
    ones.
    """
    reader = readers.of(question["state"])
    try:
        given = json.loads(question["key"])
    except ValueError as error:
        raise InvalidUse(f"the key is no JSON: {error}") from error
    key = key_of(reader.key, given)
    version = reader.version if question["version"] is None else question["version"]
    found = reader.values_of(key, question["variable"], version=version)
    values: list[dict[str, Any]] = []
    size = 0
    after, limit = question["after"], question["limit"]
    for entry in islice(found, after, None):
        if len(values) == limit or size >= _PAGE_BYTES:
            return {"version": version, "values": values, "next": after + len(values)}
        values.append(_value(reader, entry))
        length = len(json.dumps(values[-1]))
        if length > _MOST_BYTES:
            raise MemoryError(f"a value of {entry.variable} has {length} bytes as JSON, and {_MOST_BYTES} are the most")
        size += length
    return {"version": version, "values": values, "next": None}


def _value(reader: StateReader, entry: Entry) -> dict[str, Any]:
    variable = reader.variable(entry.variable)
    found: dict[str, Any] = {"variable": entry.variable}
    if entry.entry is not None:
        found["entry"] = row_json(variable.key, entry.entry)
    found["value"] = row_json(variable.schemas[-1], entry.value)
    if entry.expires is not None:
        seconds, milliseconds = divmod(entry.expires, 1000)
        found["expires"] = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{milliseconds:03}Z"
    return found


def _refusal(error: StateError) -> dict[str, Any]:
    code = "failed"
    if isinstance(error, (InvalidUse, CoderError)):
        code = "invalid-request"
    elif isinstance(error, StateDamaged):
        code = "corrupt"
    elif isinstance(error, (VersionNotFound, FileMissing)):
        code = "not-exist"
    return {"refusal": code, "why": str(error)}


def questions(channel: Channel) -> Iterator[dict[str, Any]]:
    """Iterate over the server's questions until the input ends."""
    while (received := channel.receive()) is not None:
        yield received[0]


def main() -> None:
    """Answer the server's questions until the input ends."""
    bound_memory(_MEMORY)
    os.environ["TZ"] = "UTC"  # timestamps in state become datetimes without a zone, in the zone of the process
    time.tzset()
    channel = Channel(sys.stdin.buffer, sys.stdout.buffer)
    for question in questions(channel):
        channel.send(answered(channel, question))


if __name__ == "__main__":
    main()
