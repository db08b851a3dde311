"""The operations on all files of a job at once: the snapshots that are kept of them, and what is made of a snapshot."""

from __future__ import annotations

from collections.abc import Collection

from milepost.core.calls import answers, file_answers
from milepost.core.calls.request import Request, checked_name, json_body
from milepost.core.effects import Operation
from milepost.core.store_calls import JSON, StoreCalls
from milepost.operations.files import (
    CLONE_TREE,
    DROP_SAVEPOINT,
    GET_SNAPSHOTS,
    MAKE_SAVEPOINT,
    ROLL_BACK,
    VERIFY_TREE,
)
from milepost.types import Clone, KeptSnapshots, Verification


class SnapshotOperations:
    """The operations of one session on the snapshots of a job's files. Roll-back and clone carry the epoch of
    ``calls``.
    """

    def __init__(self, calls: StoreCalls) -> None:
        self._calls = calls

    def kept_snapshots(self, timeout: float | None = None) -> Operation[KeptSnapshots]:
        """Return the snapshots and savepoints of the files of the job. Raises `Corrupt`."""
        request = Request(*self._calls.at(GET_SNAPSHOTS), answers.document(file_answers.kept_snapshots))
        return (yield from self._calls.caller.call(request, timeout=timeout)).value

    def verify(self, digests: bool, timeout: float | None = None) -> Operation[Verification]:
        """Look whether the bytes of all files of the job are there. Raises `Corrupt`."""
        timeout = self._calls.caller.timeout if timeout is None else timeout
        reader = answers.document(file_answers.verification)
        request = Request(*self._calls.at(VERIFY_TREE), reader, JSON, json_body({"digests": digests}), timeout)
        return (yield from self._calls.caller.call(request, timeout=timeout)).value

    def make_savepoint(self, name: str, revision: int, timeout: float | None = None) -> Operation[int]:
        """Keep a snapshot under a name. Raises `NotExist`, `AlreadyExists`."""
        call, reader = self._calls.at(MAKE_SAVEPOINT, checked_name(name)), answers.document(file_answers.revision)
        body = json_body({"revision": revision})
        return (yield from self._calls.send(*call, reader, JSON, body, timeout=timeout)).value

    def drop_savepoint(self, name: str, timeout: float | None = None) -> Operation[None]:
        """Drop a savepoint. Raises `NotExist`."""
        call = self._calls.at(DROP_SAVEPOINT, checked_name(name))
        yield from self._calls.send(*call, answers.nothing, timeout=timeout)

    def roll_back(self, revision: int, keep: Collection[str], timeout: float | None = None) -> Operation[int]:
        """Let the files of the job be those of a snapshot again, but for those in ``keep``. Raises `NotExist`,
        `Fenced`.
        """
        call, reader = self._calls.at(ROLL_BACK), answers.document(file_answers.revision)
        headers = {**JSON, **self._calls.epoch_header()}
        body = json_body({"revision": revision, **({"keep": list(keep)} if keep else {})})
        return (yield from self._calls.send(*call, reader, headers, body, timeout=timeout)).value

    def clone(self, source: str, snapshot: str, timeout: float | None = None) -> Operation[Clone]:
        """Begin the files of the job with copies of a snapshot of another one. Raises `NotExist`, `NotEmpty`."""
        call, reader = self._calls.at(CLONE_TREE), answers.document(file_answers.clone, 201)
        timeout = self._calls.caller.timeout if timeout is None else timeout
        body = json_body({"source": checked_name(source), "snapshot": snapshot})
        headers = {**JSON, **self._calls.epoch_header()}
        return (yield from self._calls.send(*call, reader, headers, body, timeout=timeout, wait=timeout)).value
