"""The job pointer: the handle that holds the job record, and the compare-and-set that moves it.

A write to a job's store is repeated until its outcome is certain, done or refused, or until ``outage_timeout`` ends. An
unknown outcome is resolved by reading back, never by guessing: the digest of a state shows which write it came from.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

from milepost.core.calls.outages import OUTAGES
from milepost.errors import (
    AlreadyExists,
    Fenced,
    JobUnknown,
    LabelsLost,
    MilepostError,
    NoSafeCheckpoint,
    NotExist,
    Problem,
    SessionLost,
    SparkDriverError,
    VersionMismatch,
)
from milepost.files import JobFiles
from milepost.job_record import JOB, RECORD_FILE, JobRecord, decode
from milepost.job_types import JobAct
from milepost.types import Epoch, Handle
from milepost.wire import Code, Outcome

_log = logging.getLogger(__name__)
_PAUSE = 0.25

_T = TypeVar("_T")


class HandleStore(Protocol):
    """The methods of `milepost.StateHandleStore` that a driver uses."""

    @property
    def epoch(self) -> int | None: ...
    @property
    def files(self) -> JobFiles: ...
    def add_and_lock(self, name: str, state: bytes, labels: Mapping[str, str] | None = None) -> Handle: ...
    def replace(
        self,
        name: str,
        version: str,
        state: bytes,
        labels: Mapping[str, str] | None = None,
        *,
        act: JobAct | None = None,
    ) -> Handle: ...
    def get(self, name: str) -> Handle: ...
    def get_and_lock(self, name: str) -> Handle: ...
    def read(self, name: str, version: str | None = None) -> bytes: ...
    def current_epoch(self) -> Epoch: ...
    def report_rows(self, directory: str, rows: Mapping[int, int], *, timeout: float | None = None) -> int: ...


class ResolvingStore:
    """A job's store under this driver's epoch. Its writes return or raise only once their outcome is known, or time has
    run out.

    ``outage_timeout`` is the number of seconds for which a write waits for an outage to end.
    """

    def __init__(
        self,
        store: HandleStore,
        *,
        outage_timeout: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.plain = store
        self._outage_timeout = outage_timeout
        self._clock = clock
        self._sleep = sleep
        self._warned = False

    @property
    def epoch(self) -> int:
        """The epoch that each write carries."""
        if self.plain.epoch is None:
            raise ValueError("a driver may only write under an epoch")
        return self.plain.epoch

    def add(self, name: str, state: bytes, labels: Mapping[str, str]) -> Handle:
        """Add a handle. The bytes of ``state`` must be unique to this write, so that a stored handle with their digest
        shows that the write was applied.
        """
        return self._moved(name, state, lambda: self.plain.add_and_lock(name, state, labels))

    def replace(
        self, name: str, version: str, state: bytes, labels: Mapping[str, str], act: JobAct | None = None
    ) -> Handle:
        """Replace a handle by compare-and-set; the same commit enters ``act`` into the history of the job.

        Raises `Fenced` in place of `VersionMismatch` if a newer driver leads.
        """
        try:
            return self._moved(name, state, lambda: self.plain.replace(name, version, state, labels, act=act))
        except VersionMismatch as mismatch:
            self.raise_if_fenced(mismatch)
            raise

    def write_file(self, path: str, content: bytes) -> None:
        """Write a file of the job, and replace an existing one. Repeating the write is safe: only this epoch can write
        there.
        """
        self._resolve(lambda: self.plain.files.write(path, content), lambda: None)

    def report_rows(self, directory: str, rows: Mapping[int, int], *, timeout: float | None = None) -> int:
        """Enter the rows of batches into the history, by one attempt: a report is not worth waiting for."""
        return self.plain.report_rows(directory, rows, timeout=timeout)

    def raise_if_fenced(self, cause: BaseException | None = None) -> None:
        """Raise `Fenced`, with ``cause`` as its cause, if the store's current epoch is not this driver's."""
        current = self.plain.current_epoch().epoch
        if current != self.epoch:
            detail = f"epoch {current} leads this job, this driver had {self.epoch}"
            raise Fenced(Code.FENCED, detail, extras={"current": current}) from cause

    @contextmanager
    def or_fenced(self) -> Iterator[None]:
        """If the block raises a `SparkDriverError` and a newer driver leads, raise `Fenced` in its place: the work of
        the newer driver may have caused the error.
        """
        try:
            yield
        except SparkDriverError as error:
            self.raise_if_fenced(error)
            raise

    def _moved(self, name: str, state: bytes, write: Callable[[], Handle]) -> Handle:
        digest = _digest(state)

        def labelled() -> Handle:
            try:
                return write()
            except LabelsLost as lost:  # the state is stored; only people read the labels of this handle
                if not self._warned:
                    _log.warning("%s", lost)
                self._warned = True
                return lost.handle

        return self._resolve(labelled, lambda: self._committed(name, digest))

    def _committed(self, name: str, digest: str) -> Handle | None:
        try:
            handle = self.plain.get(name)
        except NotExist:
            return None
        return handle if handle.sha256 == digest else None

    def _resolve(self, write: Callable[[], _T], committed: Callable[[], _T | None]) -> _T:
        until = self._clock() + self._outage_timeout
        doubt: Problem | None = None
        look = conflict = False
        while True:
            try:
                if look and (found := committed()) is not None:
                    return found
                return write()
            except OUTAGES as error:
                obstacle: MilepostError = error
            except (AlreadyExists, VersionMismatch):
                if conflict:
                    raise
                look = conflict = True
                continue
            except (Fenced, SessionLost):
                raise  # not repeated: the next driver reads from the record whether it was applied
            except Problem as error:
                if error.outcome is not Outcome.UNKNOWN:
                    if doubt is not None:
                        raise doubt from error
                    raise
                obstacle = doubt = error
                look, conflict = True, False
            if self._clock() >= until:
                # If an earlier attempt may have been applied, raise the error of that attempt, which says so.
                if doubt is None or doubt is obstacle:
                    raise obstacle
                raise doubt from obstacle
            _log.warning("write not resolved yet, reading back and trying again: %s", obstacle)
            self._sleep(_PAUSE)


class JobPointer:
    """The job record as this driver last read or wrote it."""

    def __init__(self, store: ResolvingStore, record: JobRecord, version: str) -> None:
        self.store = store
        self.record = record
        self._version = version
        self._one_moves = threading.Lock()

    @classmethod
    def take(cls, store: ResolvingStore, authority: str, *, must_exist: bool = False) -> JobPointer:
        """Read the record, or make the first one, with this ``authority`` for the job's checkpoint location. Call this
        only after the epoch was granted.

        Raises `RecordUnreadable`, `JobUnknown` if there is no record although ``must_exist`` is set, `NoSafeCheckpoint`
        if an older release stored the checkpoint, and the SDK's errors (`Corrupt`, `BlobMissing`, `Fenced` …).
        """
        try:
            handle = store.plain.get_and_lock(JOB)
        except NotExist as absent:
            if must_exist:
                raise JobUnknown(
                    "the service knows no such job, and lead's must_exist is set: is the address right, and is its "
                    "storage the one that the job ran with?"
                ) from absent
            record = JobRecord(job=uuid.uuid4().hex, epoch=store.epoch, authority=authority)
            handle = store.add(JOB, record.encode(), record.labels)
            return cls(store, record, handle.version)
        record = decode(store.plain.read(JOB, handle.version))
        if record.layered:
            raise NoSafeCheckpoint(
                f"an older release of milepost stored this job's checkpoint (after batch {record.published}), in a "
                "form that this release does not read: let that release run the job to the end of its input, and then "
                "begin a job under another name, with another output; what was published can still be read"
            )
        return cls(store, record if record.authority else replace(record, authority=authority), handle.version)

    def change(
        self, change: Callable[[JobRecord], JobRecord], act: Callable[[JobRecord, JobRecord], JobAct] | None = None
    ) -> None:
        """Replace the record by ``change(record)``. Threads may call this at the same time. ``act(new, old)`` says of
        the two records what the change does to the job, for its history. Raises the errors of `move`.
        """
        with self._one_moves:
            changed = change(self.record)
            self.move(changed, None if act is None else act(changed, self.record))

    def publish(self, change: Callable[[JobRecord], JobRecord], act: JobAct | None = None) -> None:
        """Replace the record by ``change(record)``, and write a copy of the new one among the job's files, so that the
        snapshot that follows has the record that belongs to it. ``act`` says what this does to the job, for its
        history. Raises the errors of `move`.
        """
        self.change(change, None if act is None else lambda _, __: act)
        self.store.write_file(RECORD_FILE, self.record.encode())

    def move(self, record: JobRecord, act: JobAct | None = None) -> None:
        """Replace the record by ``record`` with a compare-and-set; return once the service has certainly stored it, and
        has entered ``act`` into the history of the job in the same commit.

        Raises `Fenced` (or another refusal of the service), and `OutcomeUnknown` if time ran out before the outcome was
        known.
        """
        state = record.encode()
        handle = self.store.replace(JOB, self._version, state, record.labels, act)
        # Keep the record as the next driver will decode it: JSON turns tuples into lists, and keys into strings.
        self.record, self._version = decode(state), handle.version


def _digest(state: bytes) -> str:
    return hashlib.sha256(state).hexdigest()
