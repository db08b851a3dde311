"""The operations on the files of a job: write, read, list and delete single files under the epoch; keep snapshots of
all files, and roll back to a snapshot.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from milepost.core.body import AsyncState, Body, body_of
from milepost.core.calls import answers, file_answers
from milepost.core.calls.answers import Reader
from milepost.core.calls.request import Request, checked_name, file_segments, json_body
from milepost.core.download import download
from milepost.core.effects import Answer, Emit, Operation, Work
from milepost.core.progress import Progress, Transfer
from milepost.core.store_calls import JSON, StoreCalls
from milepost.operations.files import (
    CLONE_TREE,
    DELETE_FILE,
    DROP_SAVEPOINT,
    GET_SNAPSHOTS,
    LIST_FILES,
    LOOK_AT_FILE,
    MAKE_SAVEPOINT,
    READ_FILE,
    ROLL_BACK,
    VERIFY_TREE,
    WRITE_FILE,
)
from milepost.operations.operation import RestOperation
from milepost.types import Clone, JobFile, KeptSnapshots, StateAddition, StateReplacement, Verification, WrittenFile
from milepost.wire import STATE_MEDIA_TYPE, Header

T = TypeVar("T")


class FileOperations:
    """The operations on the files of one job. Writes carry the epoch of ``calls``, and no session: executors write too,
    and have only the epoch.
    """

    def __init__(self, calls: StoreCalls) -> None:
        self._calls = calls

    def write(
        self,
        name: str,
        content: AsyncState,
        *,
        only_new: bool,
        timeout: float | None,
        progress: Progress | None,
    ) -> Operation[WrittenFile]:
        """Write a complete file. With ``only_new``, an existing file is not replaced: the operation raises
        `AlreadyExists`.

        Raises `NotDirectory` if a parent is a file, and `Fenced` if the epoch is not the current one.
        """
        call = self._at(WRITE_FILE, name)

        def written(answer: Answer) -> WrittenFile:
            return answers.document(file_answers.written_file(name, answer.status == 201), 200, 201)(answer)

        body: Body = yield Work(lambda: body_of(content))
        body.transfer = Transfer(progress, self._calls.caller.clock)
        headers = {"Content-Type": STATE_MEDIA_TYPE, **({Header.IF_NONE_MATCH: "*"} if only_new else {})}
        found = yield from self._act(call, written, headers, body, timeout)
        body.transfer.end_stored(found.size)
        return found

    def make_directory(self, name: str, timeout: float | None) -> Operation[None]:
        """Make a directory and its missing parents, unless it exists. Raises `NotDirectory`, `Fenced`."""
        reader = answers.document(file_answers.made_directory(name), 200, 201)
        yield from self._act(self._at(WRITE_FILE, name, directory="true"), reader, {}, None, timeout)

    def delete(self, name: str, recursive: bool, timeout: float | None) -> Operation[None]:
        """Delete a file or a directory; a directory that is not empty only if ``recursive``. Raises `NotEmpty`,
        `Fenced`.
        """
        call = self._at(DELETE_FILE, name, recursive="true" if recursive else None)
        yield from self._act(call, answers.nothing, {}, None, timeout)

    def read(
        self,
        name: str,
        version: str | None = None,
        *,
        start: int = 0,
        length: int | None = None,
        timeout: float | None,
        whole: bool = False,
        progress: Progress | None,
    ) -> Operation[None]:
        """Emit a file in chunks, or ``length`` bytes of it from ``start``; the first chunk is empty. The other
        arguments and the errors are those of `download`, which reads a state in the same way.
        """
        if start < 0 or (length is not None and length < 0):
            raise ValueError("start and length are numbers of bytes, 0 or more")
        return download(
            self._calls.caller,
            self._at(READ_FILE, name)[1],
            version,
            start=start,
            length=length,
            timeout=timeout,
            whole=whole,
            progress=progress,
        )

    def get(self, name: str, timeout: float | None) -> Operation[JobFile]:
        """Return the record of a file. Raises `NotExist`, also if the path is a directory."""
        request = Request(*self._at(LOOK_AT_FILE, name), file_answers.file_at(name))
        return (yield from self._calls.caller.call(request, timeout=timeout)).value

    def list_directory(self, directory: str, page_size: int, timeout: float | None) -> Operation[None]:
        """Fetch the entries of a directory page after page, each within ``timeout``, and emit each entry as a
        `JobFile`.

        Raises `NotExist`, `NotDirectory`, `Corrupt`.
        """
        if directory:
            file_segments(directory)
        token: str | None = None
        while True:
            query = {"under": directory or None, "limit": page_size, "token": token}
            request = Request(*self._calls.at(LIST_FILES, **query), answers.document(file_answers.files(token)))
            found, token = (yield from self._calls.caller.call(request, timeout=timeout)).value
            for entry in found:
                yield Emit(entry)
            if token is None:
                return

    def _act(
        self,
        call: tuple[str, str],
        reader: Reader[T],
        headers: dict[str, str],
        body: Body | None,
        timeout: float | None,
    ) -> Operation[T]:
        request = Request(*call, reader, {**headers, **self._calls.epoch_header()}, body)
        return (yield from self._calls.caller.call(request, timeout=timeout)).value

    def _at(self, operation: RestOperation, name: str, **query: object) -> tuple[str, str]:
        return self._calls.at(operation, file_segments(name), **query)


class SnapshotOperations:
    """The operations of one session on the snapshots of a job's files. To roll back or clone changes the files, so
    these two carry the epoch of ``calls``.
    """

    def __init__(self, calls: StoreCalls) -> None:
        self._calls = calls

    def kept_snapshots(self, timeout: float | None = None) -> Operation[KeptSnapshots]:
        """Return the snapshots and savepoints of the job's files that the service keeps. Raises `Corrupt`."""
        request = Request(*self._calls.at(GET_SNAPSHOTS), answers.document(file_answers.kept_snapshots))
        return (yield from self._calls.caller.call(request, timeout=timeout)).value

    def verify(self, digests: bool, timeout: float | None = None) -> Operation[Verification]:
        """Check whether the bytes of all files of the job, and of its snapshots, exist; with ``digests``, also whether
        they are intact. Raises `Corrupt`.
        """
        timeout = self._calls.caller.timeout if timeout is None else timeout
        reader = answers.document(file_answers.verification)
        request = Request(*self._calls.at(VERIFY_TREE), reader, JSON, json_body({"digests": digests}), timeout)
        return (yield from self._calls.caller.call(request, timeout=timeout)).value

    def make_savepoint(self, name: str, revision: int, timeout: float | None = None) -> Operation[int]:
        """Keep the snapshot at ``revision`` (0: the newest) as the savepoint ``name``; return the snapshot's revision.
        Raises `NotExist`, `AlreadyExists`.
        """
        call, reader = self._calls.at(MAKE_SAVEPOINT, checked_name(name)), answers.document(file_answers.revision)
        body = json_body({"revision": revision})
        return (yield from self._calls.send(*call, reader, JSON, body, timeout=timeout)).value

    def drop_savepoint(self, name: str, timeout: float | None = None) -> Operation[None]:
        """Drop the savepoint ``name``, which keeps its snapshot no longer. Raises `NotExist`."""
        call = self._calls.at(DROP_SAVEPOINT, checked_name(name))
        yield from self._calls.send(*call, answers.nothing, timeout=timeout)

    def roll_back(
        self,
        revision: int,
        keep: Collection[str],
        replace: StateReplacement | None = None,
        timeout: float | None = None,
    ) -> Operation[int]:
        """Roll the files of the job back to the snapshot or savepoint at ``revision``, except the paths in ``keep``;
        return ``revision``. Raises `NotExist`, `Fenced`.

        With ``replace``, the service also replaces the state of a handle, in the same commit. This raises
        `VersionMismatch`, `NotLocked` and `TooLarge`, and then the files stay unchanged as well.
        """
        call, reader = self._calls.at(ROLL_BACK), answers.document(file_answers.rolled_back(replace is not None))
        headers = {**JSON, **self._calls.epoch_header()}
        document: dict[str, Any] = {"revision": revision}
        if keep:
            document["keep"] = list(keep)
        if replace is not None:
            document["replace"] = _replacement(replace)
        return (yield from self._calls.send(*call, reader, headers, json_body(document), timeout=timeout)).value

    def clone(
        self,
        source: str,
        snapshot: str,
        files: Mapping[str, bytes],
        add: StateAddition | None = None,
        timeout: float | None = None,
    ) -> Operation[Clone]:
        """Begin this job, which must have no files yet, with copies of the files in a snapshot of the job ``source``.
        Those in ``files`` have these bytes in place of the original ones. Raises `NotExist`, `NotEmpty`.

        With ``add``, the service also adds a handle, in the same commit. This raises `AlreadyExists` and `TooLarge`,
        and then the job has no files either.
        """
        call, reader = self._calls.at(CLONE_TREE), answers.document(file_answers.clone(add is not None), 201)
        timeout = self._calls.caller.timeout if timeout is None else timeout
        document: dict[str, Any] = {"source": checked_name(source), "snapshot": snapshot}
        if files:
            document["files"] = {path: b64encode(content).decode() for path, content in files.items()}
        if add is not None:
            document["add"] = _state_of(add)
        headers = {**JSON, **self._calls.epoch_header()}
        sending = self._calls.send(*call, reader, headers, json_body(document), timeout=timeout, wait=timeout)
        return (yield from sending).value


def _replacement(replace: StateReplacement) -> dict[str, Any]:
    """Return a replacement as JSON. Raises `InvalidName`."""
    return {**_state_of(replace), "version": replace.version}


def _state_of(change: StateAddition | StateReplacement) -> dict[str, Any]:
    """Return the name, the state and the labels of a handle as JSON. Raises `InvalidName`."""
    document: dict[str, Any] = {"name": checked_name(change.name), "state": b64encode(change.state).decode()}
    return document if change.labels is None else {**document, "labels": dict(change.labels)}
