"""SIGTERM, delivered to this very process."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from milepost.errors import JvmLost
from milepost.spark.driver.sigterm import on_sigterm
from tests.client.test_signals import die

_DEADLINE_SECONDS = 30.0
STATUS = 128 + signal.SIGTERM


@contextmanager
def ending(status: int = STATUS) -> Iterator[None]:
    """See the program end with this status, where the block that SIGTERM came in is left."""
    with pytest.raises(SystemExit) as ended:
        yield
    assert ended.value.code == status


def test_a_running_query_is_stopped_from_a_thread_of_its_own() -> None:
    stopped, threads = threading.Event(), list[threading.Thread]()

    def stop() -> None:
        threads.append(threading.current_thread())
        stopped.set()

    with ending(), on_sigterm(stop, lambda: True):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.wait(_DEADLINE_SECONDS)
    assert threads != [threading.main_thread()]


def test_the_handler_itself_writes_no_log(caplog: pytest.LogCaptureFixture) -> None:
    """It may interrupt a write to the stream that the log goes to, and a second write inside it fails."""
    caplog.set_level(logging.INFO, "milepost.spark.driver.sigterm")
    stopped = threading.Event()
    with ending(), on_sigterm(stopped.set, lambda: True):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.wait(_DEADLINE_SECONDS)
    assert [record.threadName for record in caplog.records] == ["milepost-stop"]


def test_without_a_query_the_program_ends() -> None:
    def stop() -> None:
        raise AssertionError("there is nothing to stop")

    def receive() -> None:
        with on_sigterm(stop, lambda: False):
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(_DEADLINE_SECONDS)

    with pytest.raises(SystemExit) as ended:
        receive()
    assert ended.value.code == 128 + signal.SIGTERM


def test_the_program_ends_also_if_the_signal_comes_while_a_finalizer_runs() -> None:
    """Python drops what is raised in a finalizer; the collector may run one at any time."""
    with ending(), on_sigterm(lambda: None, lambda: False):
        die(signal.SIGTERM)
        raise AssertionError("the signal is lost")


def test_all_that_are_nested_are_stopped() -> None:
    outer, inner = threading.Event(), threading.Event()
    with ending(), on_sigterm(outer.set, lambda: True), ending(), on_sigterm(inner.set, lambda: True):
        os.kill(os.getpid(), signal.SIGTERM)
        assert inner.wait(_DEADLINE_SECONDS)
        assert outer.wait(_DEADLINE_SECONDS)


def test_a_block_that_is_entered_after_the_signal_ends_like_any_other() -> None:
    """The program ends behind the block in which the signal came, whatever the one inside does."""
    stopped = threading.Event()
    with ending(), on_sigterm(stopped.set, lambda: True):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.wait(_DEADLINE_SECONDS)
        with on_sigterm(lambda: None, lambda: True):
            pass


def test_an_exception_that_leaves_the_block_stays_the_one_that_ends_the_program() -> None:
    stopped = threading.Event()

    def fail() -> None:
        with on_sigterm(stopped.set, lambda: True):
            os.kill(os.getpid(), signal.SIGTERM)
            assert stopped.wait(_DEADLINE_SECONDS)
            raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        fail()


def test_spark_that_ends_by_the_same_signal_changes_nothing() -> None:
    stopped = threading.Event()
    with ending(), on_sigterm(stopped.set, lambda: True):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.wait(_DEADLINE_SECONDS)
        raise JvmLost("its context is stopped")


def test_spark_that_ends_by_itself_ends_the_program() -> None:
    with pytest.raises(JvmLost), on_sigterm(lambda: None, lambda: True):
        raise JvmLost("it is gone")


def test_without_a_signal_the_program_goes_on() -> None:
    with on_sigterm(lambda: None, lambda: True):
        pass


def test_one_that_stands_by_inside_another_ends_and_the_other_is_stopped() -> None:
    outer = threading.Event()

    def receive() -> None:
        with on_sigterm(outer.set, lambda: True), on_sigterm(lambda: None, lambda: False):
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(_DEADLINE_SECONDS)

    with pytest.raises(SystemExit):
        receive()
    assert outer.wait(_DEADLINE_SECONDS)


def test_the_handler_from_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with on_sigterm(lambda: None, lambda: True):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("first", [0, 1])
def test_blocks_may_be_left_in_any_order(first: int) -> None:
    """The one that is led still is stopped, and at the end the handler from before comes back."""
    before, stopped = signal.getsignal(signal.SIGTERM), threading.Event()
    blocks = ExitStack(), ExitStack()
    for block in blocks:
        stop = stopped.set if block is blocks[1 - first] else lambda: None
        block.enter_context(on_sigterm(stop, lambda: True))
    blocks[first].close()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.wait(_DEADLINE_SECONDS)
    finally:
        with ending():
            blocks[1 - first].close()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_handler_that_was_put_between_comes_back_where_it_was() -> None:
    def own(*_: object) -> None:
        return

    before, inner = signal.getsignal(signal.SIGTERM), ExitStack()
    with on_sigterm(lambda: None, lambda: True):
        signal.signal(signal.SIGTERM, own)
        inner.enter_context(on_sigterm(lambda: None, lambda: True))
        inner.close()
        assert signal.getsignal(signal.SIGTERM) is own
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_has_to_be_prepared_for_the_end_is_done_before_it() -> None:
    done: list[str] = []

    def receive() -> None:
        with on_sigterm(lambda: None, lambda: False, lambda: done.append("prepared")):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                threading.Event().wait(_DEADLINE_SECONDS)
            finally:
                done.append("ended")

    with pytest.raises(SystemExit):
        receive()
    assert done == ["prepared", "ended"]


def test_outside_of_the_main_thread_nothing_is_touched() -> None:
    before, seen = signal.getsignal(signal.SIGTERM), []

    def inside() -> None:
        with on_sigterm(lambda: None, lambda: True):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join(_DEADLINE_SECONDS)
    assert seen == [before]
