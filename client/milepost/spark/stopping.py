"""Stopping a query between two batches rather than inside one.

Spark's own ``query.stop()`` interrupts whatever runs: a publishing function in the middle of its writes, or the few
steps between its return and the moment it counts. So `Job.stop` closes a `BatchGate` first, lets the batch behind it
end, and only then asks Spark.
"""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

from milepost.errors import Closed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_ASKED_SECONDS = 30.0
_POLL_SECONDS = 0.01


class BatchGate:
    """What each batch goes through. Once closed, the batch inside may end and no other begins."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._occupied = False
        self._hurry = False
        self._entered = 0.0
        self._due = math.inf
        self.closed = False

    @property
    def occupied_for(self) -> float:
        """For how many seconds the batch inside has been there; 0 without one."""
        with self._changed:
            return time.monotonic() - self._entered if self._occupied else 0.0

    @property
    def overdue_for(self) -> float:
        """For how many seconds the batch inside has been there though nobody waits for it any more; 0 without one."""
        with self._changed:
            return max(0.0, time.monotonic() - self._due) if self._occupied else 0.0

    def enter(self) -> bool:
        """Go in, unless the door is closed."""
        with self._changed:
            self._occupied, self._entered = not self.closed, time.monotonic()
            return self._occupied

    def leave(self) -> None:
        """Come out again."""
        with self._changed:
            self._occupied = False
            self._changed.notify_all()

    def close(self, seconds: float) -> bool:
        """Let nobody in any more, and wait for the batch inside, ``seconds`` at most or until somebody hurries.

        Whether there was one and it came out.
        """
        with self._changed:
            self.closed = True
            self._due = min(self._due, time.monotonic() + seconds)
            waited = self._occupied
            self._changed.wait_for(lambda: self._hurry or not self._occupied, seconds)
            return waited and not self._occupied

    def hurry(self) -> None:
        """Nobody waits any more, now or later: what is inside cannot be published."""
        with self._changed:
            self._hurry = True
            self._due = min(self._due, time.monotonic())
            self._changed.notify_all()


def end_as_stopped(spark: SparkSession, query: StreamingQuery) -> NoReturn:
    """End the calling batch as one that was interrupted by ``query.stop()``: neither run nor failed.

    Waits until the query is stopped, as somebody is about to do; then meets an interruption inside Spark's JVM, which
    is what Spark tells a stop from a failure by. Raises `Closed` if nobody stops it.
    """
    until = time.monotonic() + _ASKED_SECONDS
    while query.isActive:
        if time.monotonic() > until:
            raise Closed("the job was stopped before this query was started")
        time.sleep(_POLL_SECONDS)
    jvm: Any = spark.sparkContext._jvm
    thread = jvm.java.lang.Thread  # the calls of a publishing function run in the query's own thread
    thread.currentThread().interrupt()
    thread.sleep(1)
    raise AssertionError("a thread that is interrupted does not sleep")
