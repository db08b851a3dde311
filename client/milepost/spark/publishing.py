"""Publishers of a batch: their contract, the publisher that calls a program's own function, and the `BatchContext` that
the function gets.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JError

from milepost.errors import UnsafeQuery
from milepost.job_record import JobRecord, published_by_files
from milepost.spark.driver.calls import describe
from milepost.timeline import UNRESTORED, Timeline, restored_under

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

MANIFEST_BYTES = 64 * 1024


@dataclass(frozen=True)
class BatchContext:
    """An attempt to publish a batch.

    **What is protected.** A batch counts as published when the job record says so, and never twice: the record moves by
    compare-and-set under this driver's epoch. Output is exactly once if readers see it only through the record (the
    function writes it under `staging` and names it in its return value), or if the sink is idempotent by (`txnAppId`,
    `txnVersion`), such as Delta with its options ``txnAppId`` and ``txnVersion``. **Every other side effect of the
    function (mails, inserts, calls) is not protected**: it happens a second time if a driver dies between the return of
    the function and the compare-and-set.

    ``batchId`` is Spark's number of the batch. ``epoch`` is the driver's, and higher than that of every driver before
    it. ``attempt`` counts how often drivers have entered this batch so far. ``job`` is the job's own identity, the same
    for every driver. ``previous_manifest`` is the function's return value for the last published batch (None before the
    first).
    """

    batchId: int
    epoch: int
    attempt: int
    job: str
    previous_manifest: Any = None
    timeline: Timeline = UNRESTORED
    """Which publications of the job count after restores took it back to earlier batches (`milepost.timeline`)."""

    @property
    def txnAppId(self) -> str:
        """An application id for sinks that are idempotent by application id and version.

        The id belongs to the job, not to a driver or an epoch. After a restore of the job it is another one: batches
        whose numbers a sink has seen before the restore are then published anew.
        """
        restored = restored_under(self.timeline)
        return f"milepost-{self.job}" + (f"-{restored}" if restored else "")

    @property
    def txnVersion(self) -> int:
        """The version that goes with `txnAppId`: the number of the batch."""
        return self.batchId

    def staging(self, output: str) -> str:
        """Return a directory under ``output`` that no other attempt of any driver writes to; each call returns a new
        one.

        Its name is ``batch=<batch>/e<epoch>-<hex>``. The hex digits begin with digits of the job's identity, which
        distinguish its directories from those of other jobs with the same output.
        """
        return f"{output.rstrip('/')}/batch={self.batchId}/e{self.epoch}-{attempts_of(self.job)}{uuid.uuid4().hex[:20]}"


def attempts_of(job: str) -> str:
    """Return the digits with which the hex part of each staging directory's name begins; they are the same for all
    attempts of a job.
    """
    return job[:12]


Publish = Callable[["DataFrame", BatchContext], Any]
"""A program's own function, which publishes a batch and returns small JSON for the job record."""


class Publisher(Protocol):
    """One way to publish the batches of a job."""

    def check(self, record: JobRecord) -> None:
        """Raise `UnsafeQuery` if the job of this ``record`` has published in another way so far."""

    def publish(self, frame: DataFrame, context: BatchContext) -> Any:
        """Evaluate the frame of a batch completely and once, publish it, and return the JSON for the job record.

        The batch counts as published once the record contains that JSON.
        """


class OwnFunction:
    """A publisher that calls a program's own function, the one given to `Job.exactlyOnce`."""

    def __init__(self, function: Publish) -> None:
        self._function = function

    def check(self, record: JobRecord) -> None:
        """Raise `UnsafeQuery` if the job of this ``record`` has published by `Job.files` so far."""
        if published_by_files(record.manifest):
            raise UnsafeQuery(
                "this job publishes by job.files; to publish in another way, begin a job under another name"
            )

    def publish(self, frame: DataFrame, context: BatchContext) -> Any:
        """Evaluate the frame of a batch completely and once, call the program's function with the cached rows, and
        return the function's JSON for the job record.
        """
        with evaluated_once(frame) as kept:
            return _manifest(self._function(kept, context))


@contextmanager
def evaluated_once(frame: DataFrame) -> Iterator[DataFrame]:
    """Evaluate the frame completely and once, and yield it with its rows cached until the end of the block.

    So the batch's state is complete, and written once, even if the function in the block reads the frame partly, twice
    or not at all.
    """
    kept = frame.persist()
    try:
        evaluate(kept)
        yield kept
    finally:
        _unpersist(kept)


def evaluate(frame: DataFrame) -> None:
    """Evaluate every partition of the frame to its end, and discard the rows."""
    frame.write.format("noop").mode("overwrite").save()


def _unpersist(frame: DataFrame) -> None:
    """Release the cached rows. A failure is only logged, because it does not affect the batch."""
    try:
        frame.unpersist()
    except (Py4JError, ConnectionError) as error:
        _log.warning(
            "the cached rows of a batch could not be released, leaving them to Spark's cleaner: %s", describe(error)
        )


def _manifest(value: Any) -> Any:
    try:
        size = len(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UnsafeQuery(
            f"what the publishing function returns must be JSON, to be kept in the job record: {error}"
        ) from error
    if size > MANIFEST_BYTES:
        raise UnsafeQuery(
            f"the publishing function returned {size} bytes of JSON, the job record takes at most {MANIFEST_BYTES}: "
            "write it beside the output and return its path"
        )
    return value
