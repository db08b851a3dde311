"""The thread of a resource makes its calls in order, and each ends in the event loop as the call does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from milepost_backends.worker import Worker

pytestmark = pytest.mark.anyio


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker("of the test")
    yield worker
    worker.end()


async def test_the_result_or_the_error_comes_back(worker: Worker) -> None:
    assert await worker.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await worker.run(divmod, 7, 0)
    assert await worker.run(threading.current_thread) is await worker.run(threading.current_thread)


async def test_a_call_that_is_cancelled_before_it_begins_is_not_made(worker: Worker) -> None:
    let_go, made = threading.Event(), list[str]()
    first = worker.run(let_go.wait, 60)
    second, third = worker.run(made.append, "second"), worker.run(made.append, "third")
    second.cancel()
    let_go.set()
    await asyncio.gather(first, third)
    assert made == ["third"]


async def test_a_call_that_has_begun_runs_to_its_end_though_nobody_waits(worker: Worker) -> None:
    begun, let_go, made = threading.Event(), threading.Event(), list[str]()

    def call() -> None:
        begun.set()
        assert let_go.wait(60)
        made.append("call")

    running = worker.run(call)
    assert await asyncio.to_thread(begun.wait, 60)
    running.cancel()
    let_go.set()
    await worker.run(made.append, "next")
    assert made == ["call", "next"]


async def test_the_thread_ends_after_the_calls_that_it_was_given(worker: Worker) -> None:
    thread = await worker.run(threading.current_thread)
    last = worker.run(str, 1)
    worker.end()
    assert await last == "1"
    await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()
