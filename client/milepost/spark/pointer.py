"""The job pointer: the handle that holds the job record, and the compare-and-set that moves it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import replace

from milepost.errors import JobUnknown, NoSafeCheckpoint, NotExist
from milepost.job_record import JOB, JobRecord, decode
from milepost.spark.store import ResolvingStore


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

        Raises `RecordUnreadable`, `JobUnknown` if there is no record but it ``must_exist``, `NoSafeCheckpoint` if an
        older release stored the checkpoint, and the SDK's errors (`Corrupt`, `BlobMissing`, `Fenced` …).
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

    def change(self, change: Callable[[JobRecord], JobRecord]) -> None:
        """Replace the record by the return value of ``change`` for it. Threads may call this at the same time. Raises
        the errors of `move`.
        """
        with self._one_moves:
            self.move(change(self.record))

    def move(self, record: JobRecord) -> None:
        """Replace the record by ``record`` with a compare-and-set; return once the service has certainly stored it.

        Raises `Fenced` (or another refusal of the service), and `OutcomeUnknown` if time ran out before the outcome was
        known.
        """
        state = record.encode()
        handle = self.store.replace(JOB, self._version, state, record.labels)
        # Decoded from the stored bytes, as the next driver will read it: JSON has no tuples, and only strings as keys.
        self.record, self._version = decode(state), handle.version
