"""Lists what a job has published by `Job.files`: reads the job record and the pages of its manifest, in any process.

Spark's JVM is not needed for it: the caller gives the means to read files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar

from milepost.client import Client
from milepost.errors import BatchesGone, NotExist, RecordUnreadable
from milepost.job_record import JOB, Abandoned, JobRecord, decode, published_by_files
from milepost.spark.output.manifest import PublishedBatch, pages
from milepost.spark.output.sink import published_page

T = TypeVar("T")

_log = logging.getLogger(__name__)
_READS = 5
"""The most attempts at reading the job record, which is read again if its pages were replaced meanwhile."""
_RANGES = 10


class Files(Protocol):
    """The file operation that a listing uses; `HadoopFiles`, `LocalFiles` and `ArrowFiles` have it."""

    def read(self, path: str) -> bytes | None: ...


FilesOf = Callable[[str], Files]
"""A function that returns the means to read the files of an output, given its URI."""


class Published:
    """A consistent reading of the job record and of the pages of its manifest.

    ``output`` is the URI of the output, "" before the first publication, and ``frame`` the schema of the newest batch,
    in Spark's JSON. Batches below ``expired`` have expired.
    """

    def __init__(self, client: Client, job: str, files_of: FilesOf, wanted: Collection[int] | None = None) -> None:
        """Read the batches of the numbers in ``wanted``, None for all.

        Batches that expired are left out, with a warning in the log; if ``wanted`` names one of them, the call raises
        `BatchesGone`. Raises `NotExist`, `UnsafeQuery` and `RecordUnreadable`.
        """
        self.batches: list[PublishedBatch] = []
        self.frame = ""
        self.output = ""
        self.expired = 0
        consistent(client, job, lambda record: self._take(job, record, files_of, wanted))

    def _take(self, job: str, record: JobRecord, files_of: FilesOf, wanted: Collection[int] | None) -> None:
        newest = published_page(record.manifest, record.published, first=record.first_output)
        if newest is None:
            return
        self.output, self.expired = output_of(record), record.expired
        if wanted is None and record.expired:
            _log.warning("batches below %d of job %s are expired: only those from it on are read", record.expired, job)
        gone = sorted(batch for batch in wanted or () if 0 <= batch < record.expired)
        if gone:
            raise BatchesGone(f"batches {ranges(gone)} are expired: the job has those from {record.expired} on", gone)
        files = files_of(self.output)
        chosen = None if wanted is None else frozenset(wanted)
        since = min([record.published, *(chosen or ())]) if chosen is not None else 0
        listed = listed_in(history_of(record), files, max(since, record.expired), first=record.first_output)
        self.frame = listed[-1].schema
        self.batches = [
            each for each in listed if each.batch >= record.expired and (chosen is None or each.batch in chosen)
        ]


def consistent(client: Client, job: str, use: Callable[[JobRecord], T]) -> T:
    """Read the job record, and return what ``use`` makes of it and of the pages that it names.

    If ``use`` raises FileNotFoundError for a page, a driver replaced the page after the record was read; the record is
    then read again. Raises `NotExist` and `RecordUnreadable`.
    """
    for _ in range(_READS):
        try:
            record = decode(client.store(job).read(JOB))
        except NotExist as error:
            raise NotExist(
                error.code, f"no driver has led a job {job!r} of milepost.spark here: {error.detail}"
            ) from error
        try:
            return use(record)
        except FileNotFoundError as error:
            gone = error
    raise RecordUnreadable(f"{output_of(record)}/{gone}, which lists published output, is gone") from gone


def output_of(record: JobRecord) -> str:
    """Return the URI of the output of a job; "" before the first publication."""
    return str(record.manifest["output"]) if published_by_files(record.manifest) else ""


def history_of(record: JobRecord) -> Abandoned:
    """Return what counts now in the form of what a restore has abandoned."""
    return Abandoned(record.manifest, record.published, record.timeline)


def listed_in(history: Abandoned, files: Files, since: int, *, first: int = 0) -> list[PublishedBatch]:
    """Return the batches of a history, in ascending order; those from ``since`` on, and perhaps older ones. The newest
    is always among them.

    ``first`` is as in `published_page`, whose errors and those of `pages` this raises.
    """
    newest = published_page(history.manifest, history.published, first=first)
    if newest is None:
        return []
    output = str(history.manifest["output"])
    # The batch of a rescale is published without output, so the newest page may end before it.
    found = list(pages(newest, lambda file: files.read(f"{output}/{file}"), min(since, newest.last)))
    listed = (each for page in reversed(found) for each in page.batches)
    return [each for each in listed if each.counts(history.published, history.timeline)]


def ranges(batches: Sequence[int]) -> str:
    """Format the numbers of batches as a few ranges, for a message."""
    found: list[list[int]] = []
    for batch in batches:
        if found and batch == found[-1][1] + 1:
            found[-1][1] = batch
        else:
            found.append([batch, batch])
    parts = [str(first) if first == last else f"{first} to {last}" for first, last in found[:_RANGES]]
    return ", ".join(parts) + (", …" if len(found) > _RANGES else "")
