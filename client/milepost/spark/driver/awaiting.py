"""Waits for the end of a query in a way that a hanging JVM of Spark cannot block."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from milepost.errors import MilepostError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Awaiting:
    """Waits for each query in a thread of its own, because a call to a JVM that hangs never returns."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._released: MilepostError | None = None

    def end_of(self, query: StreamingQuery, timeout: int | None) -> bool | None:
        """Return or raise what ``query.awaitTermination`` does; if `release` comes first, raise the error that it was
        given.
        """
        ended: list[bool | None] = []
        failed: list[BaseException] = []

        def wait() -> None:
            try:
                ended.append(query.awaitTermination() if timeout is None else query.awaitTermination(timeout))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
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
        """Stop waiting, now and later: raise ``error`` instead."""
        with self._changed:
            self._released = error
            self._changed.notify_all()
