"""The facts about a batch that its publishing function is given."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BatchContext:
    """One attempt to publish one batch.

    **What is protected.** A batch counts as published when the job record says so, and never twice: the record moves by
    compare-and-set under this driver's epoch. Output is exactly once if readers see it only through the record (it is
    staged under `staging` and named by what the function returns), or if the sink is idempotent by (`txnAppId`,
    `txnVersion`), such as Delta with its options ``txnAppId`` and ``txnVersion``. **Every other side effect of the
    function (mails, inserts, calls) is not protected**: it happens again if a driver dies between the function and the
    compare-and-set.

    ``batchId`` is Spark's. ``epoch`` is the driver's, and higher than that of every driver before it. ``attempt`` is
    how often this batch was entered so far, by all drivers together. ``job`` is the job's own identity, the same for
    every driver. ``previous_manifest`` is what the function returned for the batch that was published last (None before
    the first).
    """

    batchId: int
    epoch: int
    attempt: int
    job: str
    previous_manifest: Any = None

    @property
    def txnAppId(self) -> str:
        """An application id for sinks that are idempotent by one.

        It belongs to the job, not to a driver or an epoch.
        """
        return f"milepost-{self.job}"

    @property
    def txnVersion(self) -> int:
        """The version that goes with `txnAppId`: the number of the batch."""
        return self.batchId

    def staging(self, output: str) -> str:
        """Return a directory under ``output`` that no other attempt of any driver writes to; each call returns a new
        one.

        It is ``batch=<batch>/e<epoch>-<hex>``. The hex digits begin with those of the job, which distinguishes its
        attempts from those of other jobs with the same output.
        """
        return f"{output.rstrip('/')}/batch={self.batchId}/e{self.epoch}-{attempts_of(self.job)}{uuid.uuid4().hex[:20]}"


def attempts_of(job: str) -> str:
    """Return the part that the names of a job's staging directories share, after the epoch."""
    return job[:12]
