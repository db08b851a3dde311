"""Handles SIGTERM: a driver's queries are stopped, and then it resigns."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_log = logging.getLogger(__name__)

_led: list[tuple[Callable[[], None], Callable[[], bool]]] = []
"""The jobs that the main thread leads, the innermost last: functions that stop a job, and that say whether it runs."""


@contextmanager
def on_sigterm(stop: Callable[[], None], running: Callable[[], bool]) -> Iterator[None]:
    """Handle SIGTERM inside the block: call ``stop`` in a thread of its own or, while nothing is ``running`` yet, end
    the program.

    If blocks are nested, every job that runs is stopped, all at once; if one of them does not run yet, the program ends
    as well, block after block. Threads are needed because a signal handler interrupts whatever Py4J call the main
    thread is in, and a second call over the same connection would fail. Python delivers signals only to the main
    thread; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        _log.info("lead() does not run in the main thread, so SIGTERM does not stop the query in order")
        yield
        return
    before = signal.signal(signal.SIGTERM, _handle)
    _led.append((stop, running))
    try:
        yield
    finally:
        _led.pop()
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


def _stop(stop: Callable[[], None]) -> None:
    # Logged here, not in the handler: the handler may interrupt a write to the log's own stream, which then fails.
    _log.info("SIGTERM received, stopping the query")
    stop()


def _handle(number: int, _frame: FrameType | None) -> None:
    waiting = False
    for stop, running in _led:
        if running():
            threading.Thread(target=_stop, args=(stop,), name="milepost-stop", daemon=True).start()
        else:
            waiting = True
    if waiting or not _led:
        raise SystemExit(128 + number)
