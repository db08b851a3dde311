"""SIGTERM ends a driver in order: stop its queries, register their tails, resign."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_log = logging.getLogger(__name__)

_led: list[tuple[Callable[[], None], Callable[[], bool]]] = []
"""What the main thread leads, the innermost last: how each is stopped, and whether it runs."""


@contextmanager
def on_sigterm(stop: Callable[[], None], running: Callable[[], bool]) -> Iterator[None]:
    """While inside: SIGTERM calls ``stop`` in a thread of its own, or, when nothing is ``running`` yet, ends the
    program.

    Of several that are nested each that runs is stopped, all at once; if one of them does not run yet, the program
    ends as well, block after block. The threads are needed because a handler interrupts whatever Py4J call the main
    thread is in, and a second call over the same connection fails. Signals reach Python's main thread only; elsewhere
    this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        _log.info("lead() runs outside of the main thread: SIGTERM is not handled")
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
    # Not in the handler: it may interrupt a write to the very stream that the log goes to, which fails for that.
    _log.info("SIGTERM: stopping the query")
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
