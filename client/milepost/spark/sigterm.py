"""SIGTERM ends a driver in order: stop the query, register the tail, resign."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_log = logging.getLogger(__name__)


@contextmanager
def on_sigterm(stop: Callable[[], None], running: Callable[[], bool]) -> Iterator[None]:
    """While inside: SIGTERM calls ``stop`` in a thread of its own, or, when nothing is ``running`` yet, ends the
    program.

    The thread is needed because a handler interrupts whatever Py4J call the main thread is in, and a second call over
    the same connection fails. Signals reach Python's main thread only; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        _log.info("lead() runs outside of the main thread: SIGTERM is not handled")
        yield
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        if not running():
            raise SystemExit(128 + number)
        _log.info("SIGTERM: stopping the query")
        threading.Thread(target=stop, name="milepost-stop", daemon=True).start()

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
