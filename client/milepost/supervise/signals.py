"""Passes the signals that ask this process to end on to the command, and remembers that they came."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from milepost.supervise.command import Command

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""What a terminal, a service manager or a user ends a program with. Not handled, SIGQUIT would leave the command alone;
for Java it is no reason to end, so such a command tells where its threads stand, and is killed after its grace."""


class Signals:
    """``asked`` is the last signal that asked this process to end, if any did. Within a ``with`` block of this object,
    the command that `passed_to` names gets each of them; a `wait` for something else ends by SystemExit.

    Python delivers signals to the main thread alone; in another thread this does nothing.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self._command: Command | None = None
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)

    def passed_to(self, command: Command | None) -> None:
        """Pass signals on to ``command`` from now on, also the one that came while it was started; None: to nobody."""
        self._command = command
        if command is not None and self.asked is not None:
            command.signal(self.asked)

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Let a signal end the block, which waits for something while no command runs."""
        self._waiting = True
        try:
            if self.asked is not None:
                raise SystemExit(128 + self.asked)
            yield
        finally:
            self._waiting = False

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.asked = number
        if self._command is not None:
            self._command.signal(number)
        elif self._waiting:
            raise SystemExit(128 + number)
