"""The access log: a line for each answer, in the form that all of the server's log has, written many at once.

A record of the logging module costs several times what is left of a small request, and so does a write for each line.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Final, TextIO

BATCH_SECONDS: Final = 0.1
_MOST: Final = 300


class AccessLog:
    """Writes to ``stream`` from a thread of its own, within `BATCH_SECONDS`, and what is left when the block ends.

    A process that is killed takes the lines of its last moment along.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: deque[str] = deque()
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._write, name="access-log", daemon=True)
        self._second = 0
        self._told_second = ""

    def note(self, method: str, path: str, status: int, seconds: float, request_id: str, token: str = "") -> None:
        """A line for an answer, which took so long, with the name of the token that was shown, or ``-``."""
        now = time.time()
        if int(now) != self._second:
            self._second = int(now)
            self._told_second = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        self._lines.append(
            f"{self._told_second},{int(now * 1e3) % 1000:03d} INFO milepost.access "
            f"{method} {_printable(path)} {status} {seconds * 1e3:.1f} ms {request_id} {_printable(token) or '-'}\n"
        )

    @property
    def waiting(self) -> int:
        """How many lines are still to be written."""
        return len(self._lines)

    def __enter__(self) -> AccessLog:
        self._writer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._writer.join()

    def _write(self) -> None:
        over = False
        while not over:
            over = self._over.wait(BATCH_SECONDS)
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if lines:
                with suppress(OSError):  # nobody reads it any more, and requests are answered all the same
                    self._stream.write("".join(lines))
                    self._stream.flush()


def _printable(text: str) -> str:
    """No path can write lines of its own."""
    if not (text.isascii() and text.isprintable() and "\\" not in text):
        text = text.encode("unicode_escape").decode("ascii")
    return text[:_MOST]
