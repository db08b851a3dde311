"""Handles SIGTERM in a Spark driver, and the wish of a person that it ends: its queries are stopped, it resigns the
epoch, and the program ends with status 143.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from milepost.errors import JvmLost
from milepost.signals import Ended, send_to_main_thread, sent_again_if_dropped

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Ending:
    """The end of a job that a thread leads. ``stop`` stops the job, ``running`` returns whether it runs, and ``ending``
    is called before the program ends.

    ``before`` is the previous signal handler. ``idle`` is true if the job had nothing to stop, ``received`` if SIGTERM
    or `ask` came during the block.
    """

    stop: Callable[[], None]
    running: Callable[[], bool]
    ending: Callable[[], None]
    before: Any = None
    idle: bool = False
    received: bool = False
    thread: threading.Thread | None = field(default=None)

    def ask(self) -> None:
        """End this job as SIGTERM does, but no other job of the program."""
        self.received = True
        if self.thread is None or not self.thread.is_alive():
            self.thread = threading.Thread(target=_stop, args=(self, "the wish"), name="milepost-stop", daemon=True)
            self.thread.start()


_led: list[Ending] = []
"""The jobs that the main thread leads, oldest first."""
_leaving = threading.Lock()


@contextmanager
def on_sigterm(
    stop: Callable[[], None], running: Callable[[], bool], ending: Callable[[], None] = lambda: None
) -> Iterator[Ending]:
    """Yield the end of the job, which also handles SIGTERM inside the block: call ``stop`` in a separate thread or, if
    ``running`` returns False, end the program. After a SIGTERM during the block, the program ends with status 143 at
    the end of the block, because its work is unfinished. If an exception ends the block, it is raised instead; but
    `JvmLost` is only logged, because the signal may have gone to Spark's JVM, too.

    Blocks may be nested, one for each job. SIGTERM then stops every running job at once; if one of the jobs does not
    run yet, the program ends, and leaves one block after the other. ``stop`` and ``running`` need threads because a
    signal handler interrupts a Py4J call of the main thread, and a second call over the same connection would fail.
    ``ending`` is called right before the program ends, in the signal handler, where it must not block. Python delivers
    signals only to the main thread; in other threads only `Ending.ask` ends the job, and the thread ends with
    SystemExit.
    """
    led = Ending(stop, running, ending)
    if threading.current_thread() is not threading.main_thread():
        _log.info("lead() does not run in the main thread, so SIGTERM does not stop the query in order")
        yield led
        if led.received:
            raise Ended(signal.SIGTERM)
        return
    led.before = signal.signal(signal.SIGTERM, _handle)
    _led.append(led)
    try:
        with sent_again_if_dropped():
            yield led
    except JvmLost as error:
        if not led.received:
            raise
        _log.warning("Spark ended before the query was stopped, and the next driver runs the batch again: %s", error)
    finally:
        _leave(led)
    if led.received:
        raise Ended(signal.SIGTERM)


def _leave(led: Ending) -> None:
    """Restore the signal handler from before ``led``. If a block that began later is still active, that block restores
    it at its own end.
    """
    with _leaving:
        place = _led.index(led)
        later = _led[place + 1 :]
        _led.remove(led)
        if not later:
            signal.signal(signal.SIGTERM, led.before if led.before is not None else signal.SIG_DFL)
        elif later[0].before is _handle:
            later[0].before = led.before


def _stop(led: Ending, cause: str = "SIGTERM") -> None:
    # Not logged in the signal handler: the handler may have interrupted a write to the log's stream, in which a second
    # write fails.
    if led.running():
        _log.info("%s received, stopping the query", cause)
        led.stop()
        return
    _log.info("%s received, ending the program: there is no query yet", cause)
    if led not in _led:
        led.stop()  # another thread than the main thread leads: its query ends as soon as it starts
    with _leaving:
        if led in _led:
            led.idle = True
            send_to_main_thread(signal.SIGTERM)


def _handle(_number: int, _frame: FrameType | None) -> None:
    idle = [led for led in _led if led.idle]
    if idle or not _led:
        for led in _led:
            led.idle = False
            led.ending()
        raise Ended(signal.SIGTERM)
    for led in _led:
        led.received = True
        if led.thread is None or not led.thread.is_alive():
            led.thread = threading.Thread(target=_stop, args=(led,), name="milepost-stop", daemon=True)
            led.thread.start()
