"""Watches a driver from a separate thread: whether Spark's JVM answers, and whether the batch ends.

If the JVM hangs or a batch never ends, the session stays alive all the same, so without the watch no standby would ever
take over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from milepost.errors import BatchTimeout, JvmLost, SparkDriverError
from milepost.spark.driver.liveness import JvmProbe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_TICK = 0.25
_JOIN_SECONDS = 30.0
_MOST_BETWEEN = 5.0
STUCK_SECONDS = 60.0
"""The seconds for which a batch may continue after Spark interrupted it. A publishing function that hangs in Python
does not notice the interruption.
"""

Batch = Callable[[], "tuple[int, float] | None"]
"""A function that returns the running batch and the seconds for which it has run; None if no batch runs."""


class Watch:
    """During a ``with`` block, checks that the driver makes progress; if not, calls ``fail`` once, with the error.

    ``jvm_timeout`` is the number of seconds for which the JVM may be silent, ``batch_timeout`` the number that a batch
    may take; None turns a check off. ``overdue`` returns the seconds for which a batch has continued after the stop
    that interrupted it.
    """

    def __init__(
        self,
        spark: SparkSession,
        jvm_timeout: float | None,
        batch_timeout: float | None,
        batch: Batch,
        overdue: Callable[[], float],
        fail: Callable[[SparkDriverError], None],
    ) -> None:
        self._jvm_timeout = jvm_timeout
        self._batch_timeout = batch_timeout
        self._batch = batch
        self._overdue = overdue
        self._fail = fail
        gateway = spark.sparkContext._gateway
        self._probe = None if jvm_timeout is None else JvmProbe(gateway, min(_MOST_BETWEEN, jvm_timeout / 10))
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._run, name="milepost-watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        before = time.monotonic()
        try:
            while not self._left.wait(_TICK):
                now = time.monotonic()
                # If more than two ticks have passed, this process was paused; the rest of that time does not count.
                error = self._trouble(min(now - before, 2 * _TICK))
                before = now
                if error is not None:
                    self._fail(error)
                    return
        finally:
            if self._probe is not None:
                self._probe.close()

    def _trouble(self, seconds: float) -> SparkDriverError | None:
        if self._probe is not None and self._jvm_timeout is not None:
            self._probe.look(seconds)
            if self._probe.gone:
                return JvmLost("Spark's JVM has ended: nobody listens at its gateway any more")
            if self._probe.silent >= self._jvm_timeout:
                return JvmLost(
                    f"Spark's JVM has not answered for {self._jvm_timeout:g} s (lead's jvm_timeout): it hangs, "
                    "or collects garbage for longer than that"
                )
        running = None if self._batch_timeout is None else self._batch()
        if running is not None and self._batch_timeout is not None and running[1] >= self._batch_timeout:
            return BatchTimeout(
                f"batch {running[0]} takes longer than {self._batch_timeout:g} s (lead's batch_timeout): its query is "
                "stopped and the epoch given up; it was not published, and the next driver runs it again"
            )
        answers = self._probe is None or self._probe.silent < _MOST_BETWEEN
        if answers and self._overdue() >= STUCK_SECONDS:
            return BatchTimeout(
                f"the batch that was being published when the query was stopped still runs {STUCK_SECONDS:g} s after "
                "its interruption: the epoch is given up; it was not published, and the next driver runs it again"
            )
        return None
