"""Stops a query between two batches instead of inside one.

Spark's own ``query.stop()`` interrupts whatever runs: a publishing function in the middle of its writes, or the
compare-and-set that publishes the batch. So `Job.stop` first closes a `BatchGate`, then waits for the running batch to
end, and only then asks Spark to stop.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING, NoReturn

from milepost.errors import Closed

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_PY4J_LOG = logging.getLogger("py4j.clientserver")
_ASKED_SECONDS = 30.0
_POLL_SECONDS = 0.01
_STOPPED = "py4j.protocol.Py4JJavaError: An error occurred while calling Python: java.lang.InterruptedException"
"""The text by which Spark (``StreamExecution.PROXY_ERROR``) recognizes an interruption among Python errors.

The text must be short: Spark's regular expression uses a stack frame for each of its characters, and fails with a
StackOverflowError for the text of a real interruption, which contains Java's stack trace.
"""


class BatchGate:
    """A gate that each batch enters when it begins. Once the gate is closed, the batch inside may finish, and no other
    batch begins.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._occupied = False
        self._by: int | None = None
        self._hurry = False
        self._entered = 0.0
        self._due = math.inf
        self.closed = False

    @property
    def occupied_for(self) -> float:
        """The seconds since the batch inside entered; 0 if there is none."""
        with self._changed:
            return time.monotonic() - self._entered if self._occupied else 0.0

    @property
    def overdue_for(self) -> float:
        """The seconds for which the batch inside has continued after `close` stopped waiting for it; 0 if there is
        none.
        """
        with self._changed:
            return max(0.0, time.monotonic() - self._due) if self._occupied else 0.0

    @property
    def inside(self) -> bool:
        """Whether the calling thread runs the batch inside. Such a thread must not wait for the end of the batch."""
        with self._changed:
            return self._occupied and self._by == threading.get_ident()

    def enter(self) -> bool:
        """Enter the gate for a batch; return False if it is closed."""
        with self._changed:
            self._occupied, self._entered = not self.closed, time.monotonic()
            self._by = threading.get_ident()
            return self._occupied

    def leave(self) -> None:
        """Leave the gate at the end of a batch."""
        with self._changed:
            self._occupied = False
            self._changed.notify_all()

    def shut(self) -> None:
        """Close the gate without waiting for the batch inside."""
        with self._changed:
            self.closed = True

    def close(self, seconds: float) -> bool:
        """Close the gate, and wait for the batch inside: at most ``seconds``, or until `hurry` is called.

        Returns True if a batch was inside and has ended; False if no batch was inside, or if it still runs.
        """
        with self._changed:
            self.closed = True
            self._due = min(self._due, time.monotonic() + seconds)
            waited = self._occupied
            self._changed.wait_for(lambda: self._hurry or not self._occupied, seconds)
            return waited and not self._occupied

    def hurry(self) -> None:
        """End present and later waits of `close` at once, because the batch inside can no longer be published."""
        with self._changed:
            self._hurry = True
            self._due = min(self._due, time.monotonic())
            self._changed.notify_all()


class BatchStopped(Exception):
    """Ends the function of a batch during a stop of its query. By the text of this exception, Spark recognizes a stop
    instead of a failure.
    """

    def __init__(self) -> None:
        super().__init__(_STOPPED)


def end_as_stopped(query: StreamingQuery) -> NoReturn:
    """End the function of a batch as if ``query.stop()`` had interrupted it: Spark then takes the batch neither as
    committed nor as failed.

    Waits until another thread has stopped the query. Raises `Closed` if no thread does.
    """
    until = time.monotonic() + _ASKED_SECONDS
    while query.isActive:
        if time.monotonic() > until:
            raise Closed("the job was stopped before this query was started")
        time.sleep(_POLL_SECONDS)
    _PY4J_LOG.addFilter(_is_no_stop)
    raise BatchStopped from None


def _is_no_stop(record: logging.LogRecord) -> bool:
    """A logging filter that drops Py4J's record about a `BatchStopped`, which is no failure: Py4J logs a traceback for
    every exception of a callback.
    """
    return not (record.exc_info and isinstance(record.exc_info[1], BatchStopped))
