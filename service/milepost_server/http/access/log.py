"""Writes the lines of the log: has a formatter for log records, and the access log, with one line for each answer.

The access log writes many lines at once, and without the logging module: a logging record, or a write, for each line
would take several times as long as the rest of a small request.
"""

from __future__ import annotations

import logging
import textwrap
import threading
import time
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Final, TextIO, TypeAlias

BATCH_SECONDS: Final = 0.1
_MOST: Final = 300

_Raised: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LogLines(logging.Formatter):
    """A formatter that escapes unprintable characters in messages, and indents tracebacks.

    So a name, a path or an exception that contains line breaks cannot forge a line of the log.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a log record, without a traceback."""
        return _printable(super().formatMessage(record))

    def formatException(self, ei: _Raised) -> str:
        """Return the lines of a traceback, escaped and indented."""
        lines = super().formatException(ei).split("\n")
        return textwrap.indent("\n".join(map(_printable, lines)), "  ", lambda _: True)


class AccessLog:
    """A log with one line for each HTTP answer. Its own thread writes the lines to ``stream``, within `BATCH_SECONDS`.

    The remaining lines are written when the ``with`` block ends. If the process is killed, its last lines are lost.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: deque[str] = deque()
        self._noted = threading.Event()
        """Whether lines have come since the last look that found none."""
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._write, name="access-log", daemon=True)
        self._second = 0
        self._second_text = ""

    def note(self, method: str, path: str, status: int, seconds: float, request_id: str, token: str = "") -> None:
        """Add the line of an answer that took ``seconds``. ``token`` is the name of the caller's token, empty without a
        token.
        """
        now = time.time()
        if int(now) != self._second:
            self._second = int(now)
            self._second_text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        self._lines.append(
            f"{self._second_text},{int(now * 1e3) % 1000:03d} INFO milepost.access "
            f"{method} {_ascii(path)} {status} {seconds * 1e3:.1f} ms {request_id} {_ascii(token) or '-'}\n"
        )
        if not self._noted.is_set():
            self._noted.set()

    @property
    def waiting(self) -> int:
        """The number of lines that are still to be written."""
        return len(self._lines)

    def __enter__(self) -> AccessLog:
        self._writer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._noted.set()
        self._writer.join()

    def _write(self) -> None:
        over = False
        while not over:
            over = self._over.wait(BATCH_SECONDS)
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if lines:
                with suppress(OSError):  # a full or closed log must not stop the server from answering
                    self._stream.write("".join(lines))
                    self._stream.flush()
            elif not over:
                self._noted.clear()
                # a line or an end that comes after this look sets the event
                if not self._lines and not self._over.is_set():
                    self._noted.wait()


def _ascii(text: str) -> str:
    """Escape characters that are not printable ASCII, so that no path can add lines of its own to the log."""
    if not (text.isascii() and text.isprintable() and "\\" not in text):
        text = text.encode("unicode_escape").decode("ascii")
    return text[:_MOST]


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)
