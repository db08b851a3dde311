"""A log that nobody ever waits for: who reads it may hang, and then supervising has to go on."""

from __future__ import annotations

import logging
import logging.handlers
import os
import queue
import threading
import time
from typing import Any

_MOST = 1000
_POLL = 0.02
_LAST = 2.0


class PatientLog(logging.handlers.QueueHandler):
    """A handler whose records a thread of its own writes to the file ``descriptor``.

    It keeps a thousand records that nobody reads. It drops what comes after them, and says how many that were once
    there is room again.
    """

    def __init__(self, descriptor: int) -> None:
        # A signal handler may log as well, whatever it interrupted: only this kind of queue allows that.
        self._records: queue.SimpleQueue[Any] = queue.SimpleQueue()
        super().__init__(self._records)
        self._descriptor = os.dup(descriptor)
        self._taken = self._written = self._dropped = 0
        threading.Thread(target=self._write_all, name="milepost-log", daemon=True).start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Take a record, or count it."""
        if self._taken - self._written < _MOST:
            self._taken += 1
            self._records.put_nowait(record)
        else:
            self._dropped += 1

    def flush(self) -> None:
        """Wait until everything is written, but not for long. At its end a program takes the rest with it."""
        deadline = time.monotonic() + _LAST
        while self._written < self._taken and time.monotonic() < deadline:
            time.sleep(_POLL)

    def say(self, line: str) -> None:
        """Write a line as it is, behind all records, and wait for that as `flush` does."""
        self.enqueue(logging.makeLogRecord({"msg": line}))
        self.flush()

    def _write_all(self) -> None:
        while True:
            self._write(self._records.get())
            if self._dropped and self._records.empty():
                dropped, self._dropped = self._dropped, 0
                self._write(self._record_of(dropped))
            self._written += 1

    def _record_of(self, dropped: int) -> logging.LogRecord:
        message = f"{dropped} lines of this log were dropped, because nobody read it"
        told: logging.LogRecord = self.prepare(
            logging.LogRecord("milepost", logging.WARNING, __file__, 0, message, (), None)
        )
        return told

    def _write(self, record: logging.LogRecord) -> None:
        left = f"{record.getMessage()}\n".encode(errors="backslashreplace")
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            return  # nobody will ever read it
