"""Waiting for the end of a query without being at the mercy of Spark's JVM."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from milepost.errors import MilepostError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Awaiting:
    """Waits for queries in threads of their own: a call to a JVM that stands still never returns."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._released: MilepostError | None = None

    def end_of(self, query: StreamingQuery, timeout: int | None) -> bool | None:
        """What ``query.awaitTermination`` returns, or raises; what `release` was given, if that comes first."""
        ended: list[bool | None] = []
        failed: list[BaseException] = []

        def wait() -> None:
            try:
                ended.append(query.awaitTermination() if timeout is None else query.awaitTermination(timeout))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                failed.append(error)
            with self._changed:
                self._changed.notify_all()

        threading.Thread(target=wait, name="milepost-await", daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: ended or failed or self._released)
            if self._released is not None:
                raise self._released
            if failed:
                raise failed[0]
            return ended[0]

    def release(self, error: MilepostError) -> None:
        """Wait no more, now or later: ``error`` is raised instead."""
        with self._changed:
            self._released = error
            self._changed.notify_all()
