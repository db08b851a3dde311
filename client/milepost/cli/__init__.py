"""The ``milepost`` command shows the content of a service, changes it, and runs Spark jobs. It needs the extra
``milepost[cli]``.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = ["main"]

_EXTRA = ("typer", "yaml")


def main() -> None:
    """Run the ``milepost`` command."""
    try:
        from milepost.cli.app import root_command
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA:
            raise
        sys.exit(f"the milepost command needs {missing.name}: install the SDK with its extra cli")
    with _interrupts_not_lost():
        root_command()()


@contextmanager
def _interrupts_not_lost() -> Iterator[None]:
    """Let Ctrl-C end the block also where Python drops its exception.

    Python raises KeyboardInterrupt wherever the main thread is. In a finalizer, or in the callback of a weak reference
    that the garbage collector calls, an exception ends nothing: Python hands it to ``sys.unraisablehook``. The signal
    is then sent again, until it finds a place that can be left.
    """
    before = sys.unraisablehook

    def notice(lost: UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            threading.Thread(target=send_again, name="milepost-interrupt", daemon=True).start()
        else:
            before(lost)

    def send_again() -> None:
        time.sleep(0.01)  # the finalizer has ended by then; if not, the signal is sent once more
        main_thread = threading.main_thread().ident
        if sys.unraisablehook is not notice:
            return  # the block has ended
        if sys.platform == "win32" or main_thread is None:
            _thread.interrupt_main()
        else:
            signal.pthread_kill(main_thread, signal.SIGINT)  # a signal interrupts a blocking call of the main thread

    sys.unraisablehook = notice
    try:
        yield
    finally:
        sys.unraisablehook = before
