"""The access log: a line for each answer, written many at once."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final, TextIO

log = logging.getLogger("milepost.access")

BATCH_SECONDS: Final = 0.1
_MOST_LINES: Final = 1000
_LINE: Final = "%s %s %d %.1f ms %s"


def note(method: str, path: str, status: int, seconds: float, request_id: str) -> None:
    """Write the line of an answer. Where in the source this was called would be looked up for nothing."""
    if log.isEnabledFor(logging.INFO):
        told = (method, _printable(path), status, seconds * 1e3, request_id)
        log.handle(logging.LogRecord(log.name, logging.INFO, __file__, 0, _LINE, told, None))


def _printable(path: str) -> str:
    return path.encode("unicode_escape").decode("ascii")[:300]


class BatchingHandler(logging.StreamHandler["_Batch"]):
    """Writes to ``stream``: lines of the access log within `BATCH_SECONDS`, any other at once and with all before it.

    Nothing is lost at an orderly exit, nor by a second signal; a process that is killed takes its last lines along.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(_Batch(stream))
        self._may_wait = False
        self._due = threading.Event()
        self._writer: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        self._may_wait = record.name == log.name and len(self.stream.lines) < _MOST_LINES
        try:
            super().emit(record)
        finally:
            self._may_wait = False

    def flush(self) -> None:
        """Write what waits; also called for each record, by whom holds the lock."""
        if not self._may_wait:
            super().flush()
        elif self._writer is None:
            self._writer = threading.Thread(target=self._write, name="access-log", daemon=True)
            self._writer.start()
        else:
            self._due.set()

    def _write(self) -> None:
        while True:
            time.sleep(BATCH_SECONDS)
            super().flush()
            self._due.wait()
            self._due.clear()


class _Batch:
    """Text on its way to a stream."""

    def __init__(self, stream: TextIO) -> None:
        self.lines: list[str] = []
        self._stream = stream

    def write(self, text: str) -> None:
        self.lines.append(text)

    def flush(self) -> None:
        lines, self.lines = self.lines, []
        if lines:
            self._stream.write("".join(lines))
            self._stream.flush()
