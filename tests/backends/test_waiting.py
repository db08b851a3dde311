"""Work in threads ends before the task that was cancelled goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from milepost_backends.waiting import begin_in_thread, finish, run_in_executor

pytestmark = pytest.mark.anyio


class Work:
    """Work that begins, and ends when it is let go."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.ended = False
        self._error = error

    def __call__(self) -> str:
        self.begun.set()
        assert self.let_go.wait(60)
        self.ended = True
        if self._error is not None:
            raise self._error
        return "result"


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


async def test_the_result_or_the_error_comes_back(executor: ThreadPoolExecutor) -> None:
    assert await run_in_executor(executor, divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await run_in_executor(executor, divmod, 7, 0)


@pytest.mark.parametrize("error", [None, ValueError("lost to the cancellation")])
async def test_a_cancellation_waits_for_the_end_however_often_it_is_repeated(
    executor: ThreadPoolExecutor, error: Exception | None
) -> None:
    work = Work(error)
    step = asyncio.create_task(run_in_executor(executor, work))
    await asyncio.to_thread(work.begun.wait, 60)
    for _ in range(3):
        step.cancel()
        await asyncio.sleep(0.01)
        assert not step.done()
    work.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert work.ended


async def test_what_never_began_is_cancelled_at_once(executor: ThreadPoolExecutor) -> None:
    first, second = Work(), Work()
    running = asyncio.create_task(run_in_executor(executor, first))
    await asyncio.to_thread(first.begun.wait, 60)
    waiting = asyncio.create_task(run_in_executor(executor, second))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    first.let_go.set()
    assert await running == "result"
    assert await run_in_executor(executor, str, 1) == "1"
    assert not second.begun.is_set()


@pytest.mark.parametrize("error", [None, ValueError("by the test"), SystemExit(1)])
def test_what_was_begun_ends_as_the_call_does(error: BaseException | None) -> None:
    def call() -> str:
        assert threading.current_thread().daemon
        assert threading.current_thread().name == "by-name"
        if error is not None:
            raise error
        return "done"

    running = begin_in_thread(call, "by-name")
    assert not running.cancel()
    assert running.exception(60) is error
    if error is None:
        assert running.result() == "done"


async def test_a_result_is_waited_for_in_spite_of_cancellations() -> None:
    done = asyncio.Event()

    async def work() -> str:
        await done.wait()
        return "done"

    assert await finish(asyncio.sleep(0, "at once")) == "at once"
    waiting = asyncio.create_task(finish(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    done.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(TimeoutError):
        await finish(asyncio.Event().wait(), 0.01)
