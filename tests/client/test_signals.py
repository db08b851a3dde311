"""What the handler of a signal raises where Python drops it. The signals are delivered to this very process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from milepost.signals import Ended, sent_again_if_dropped
from milepost.supervise.command import Signals

_DEADLINE_SECONDS = 60.0


class Dying:
    """Gets a signal while its finalizer runs."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self._number)
        threading.Event().wait(_DEADLINE_SECONDS)


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What Python's own hook is given."""
    shown: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: shown.append(args.exc_type))
    return shown


def die(number: int) -> None:
    """Drop the exception of a signal, and wait for the signal to be sent again."""
    Dying(number)
    threading.Event().wait(_DEADLINE_SECONDS)


def test_an_interrupt_is_sent_again(shown: list[Any]) -> None:
    with pytest.raises(KeyboardInterrupt), sent_again_if_dropped():
        die(signal.SIGINT)
    assert shown == []


def test_the_end_of_a_program_is_sent_again_by_its_signal(shown: list[Any]) -> None:
    def end(number: int, _: FrameType | None) -> None:
        raise Ended(number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(Ended) as ended, sent_again_if_dropped():
            die(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (ended.value.code, shown) == (143, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_supervisor_that_waits_ends(number: signal.Signals, shown: list[Any]) -> None:
    with Signals() as signals, pytest.raises(SystemExit) as ended, signals.wait():
        die(number)
    assert (ended.value.code, shown) == (128 + number, [])


def test_another_signal_while_one_is_noticed_is_sent_again_too(shown: list[Any]) -> None:
    class Interrupted:
        """What Python drops, read just when another Ctrl-C comes."""

        exc_type = KeyboardInterrupt

        @property
        def exc_value(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def interrupt() -> None:
        notice: Callable[[Any], object] = sys.unraisablehook
        notice(Interrupted())
        threading.Event().wait(_DEADLINE_SECONDS)

    with pytest.raises(KeyboardInterrupt), sent_again_if_dropped():
        interrupt()
    assert shown == []


def test_every_other_exception_is_shown_and_the_hook_is_taken_back(shown: list[Any]) -> None:
    before = sys.unraisablehook
    with sent_again_if_dropped():
        noticed: Callable[[Any], object] = sys.unraisablehook
        noticed(SimpleNamespace(exc_type=ValueError, exc_value=ValueError()))
        assert shown == [ValueError]
    assert sys.unraisablehook is before
    noticed(SimpleNamespace(exc_type=KeyboardInterrupt, exc_value=None))
    assert shown == [ValueError, KeyboardInterrupt], "the block has ended"


def test_a_block_runs_also_where_no_thread_can_be_started(shown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As at a limit of processes, which a test cannot set for itself alone."""

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with sent_again_if_dropped():
        notice: Callable[[Any], object] = sys.unraisablehook
        notice(SimpleNamespace(exc_type=KeyboardInterrupt, exc_value=None))
    assert shown == [KeyboardInterrupt]
