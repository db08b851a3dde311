"""The handle that holds the job record, and the compare-and-set that moves it."""

from __future__ import annotations

import uuid

from milepost.errors import JobUnknown, NotExist
from milepost.spark.record import JOB, JobRecord, decode
from milepost.spark.store import SettlingStore


class JobPointer:
    """The job record as this driver last read or wrote it."""

    def __init__(self, store: SettlingStore, record: JobRecord, version: str) -> None:
        self.store = store
        self.record = record
        self._version = version

    @classmethod
    def take(cls, store: SettlingStore, *, must_exist: bool = False) -> JobPointer:
        """Read the record, or make the first one. To be called after the epoch was granted, never before.

        Raises `RecordUnreadable`, `JobUnknown` where there is none though it ``must_exist``, and what the SDK raises
        (`Corrupt`, `BlobMissing`, `Fenced` …).
        """
        try:
            handle = store.plain.get_and_lock(JOB)
        except NotExist as absent:
            if must_exist:
                raise JobUnknown(
                    "this service knows no such job (lead's must_exist): is the address right, and its storage the one "
                    "that the job ran with?"
                ) from absent
            record = JobRecord(job=uuid.uuid4().hex, epoch=store.epoch)
            handle = store.add(JOB, record.encode(), _labels(record))
            return cls(store, record, handle.version)
        return cls(store, decode(store.plain.read(JOB, handle.version)), handle.version)

    def move(self, record: JobRecord) -> None:
        """Compare-and-set to ``record``; returns only when it is known to stand.

        Raises `Fenced` (or another refusal of the service), and `OutcomeUnknown` when the time ran out undecided.
        """
        state = record.encode()
        handle = self.store.replace(JOB, self._version, state, _labels(record))
        # As it was written: JSON knows no tuples and no keys but text, and the next driver is told what was stored.
        self.record, self._version = decode(state), handle.version


def _labels(record: JobRecord) -> dict[str, str]:
    """What a person sees in a listing of handles."""
    newest = str(record.checkpoints[0].resumes_at) if record.checkpoints else "none"
    return {"published": str(record.published), "resumes-at": newest, "epoch": str(record.epoch)}
