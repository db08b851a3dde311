"""What handlers of signals share: the exception that ends the program, and its delivery where Python drops it."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_PAUSE_SECONDS = 0.01


class Ended(SystemExit):
    """Ends the program with the status by which shells tell of a signal, 128 and its ``number``."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextmanager
def sent_again_if_dropped() -> Iterator[None]:
    """Send a signal again while the block runs, if the KeyboardInterrupt or the `Ended` of its handler is dropped.

    Python raises it wherever the main thread is. In a finalizer, or in the callback of a weak reference that the
    garbage collector calls, an exception ends nothing: Python hands it to ``sys.unraisablehook``.
    """
    before, running = sys.unraisablehook, True
    dropped: SimpleQueue[int] = SimpleQueue()  # a finalizer may interrupt its put

    def notice(args: UnraisableHookArgs) -> None:
        number = None
        try:
            if running:
                number = _signal_of(args)
            if number is not None:
                dropped.put(number)
        except (KeyboardInterrupt, Ended) as another:  # dropped here as well
            number = another.number if isinstance(another, Ended) else signal.SIGINT
            dropped.put(number)
        if number is None:
            before(args)

    def send_again() -> None:
        while number := dropped.get():
            time.sleep(_PAUSE_SECONDS)  # the finalizer has ended by then; if not, the signal is dropped and sent again
            if running:
                send_to_main_thread(number)

    try:
        threading.Thread(target=send_again, name="milepost-signals", daemon=True).start()
    except RuntimeError:  # no thread can be started: what Python drops stays dropped
        running = False
    sys.unraisablehook = notice
    try:
        yield
    finally:
        running = False
        dropped.put(0)
        if sys.unraisablehook is notice:
            sys.unraisablehook = before


def _signal_of(args: UnraisableHookArgs) -> int | None:
    """Return the signal whose handler raised what was dropped; None for any other exception."""
    if isinstance(args.exc_value, Ended):
        return args.exc_value.number
    return signal.SIGINT if issubclass(args.exc_type, KeyboardInterrupt) else None


def send_to_main_thread(number: int) -> None:
    """Let the main thread handle a signal. Any thread may call this.

    A blocking call of the main thread is interrupted, except on Windows.
    """
    main_thread = threading.main_thread().ident
    if sys.platform == "win32" or main_thread is None:
        signal.raise_signal(number)
    else:
        signal.pthread_kill(main_thread, number)
