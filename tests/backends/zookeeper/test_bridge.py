"""From threads into the loop: nothing is lost, the order is kept, and one wake-up serves many."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from milepost_backends.zookeeper.connection import Bridge

pytestmark = pytest.mark.anyio


async def test_what_one_thread_says_before_the_loop_turns_takes_one_wake_up() -> None:
    bridge = Bridge(asyncio.get_running_loop())
    heard: list[int] = []

    def talk() -> None:
        for number in range(1000):
            bridge.post(partial(heard.append, number))

    thread = threading.Thread(target=talk)
    thread.start()
    thread.join()  # the loop stands still meanwhile
    assert heard == []
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert heard == list(range(1000))
    assert bridge.wake_ups == 1


async def test_nothing_that_several_threads_say_is_lost() -> None:
    bridge = Bridge(asyncio.get_running_loop())
    heard: list[tuple[int, int]] = []
    done = asyncio.Event()

    def hear(said: tuple[int, int]) -> None:
        heard.append(said)
        if len(heard) == 4 * 5000:
            done.set()

    def talk(thread: int) -> None:
        for number in range(5000):
            bridge.post(partial(hear, (thread, number)))

    threads = [threading.Thread(target=talk, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(60):
        await done.wait()
    for number, thread in enumerate(threads):
        thread.join()
        assert [said for said in heard if said[0] == number] == [(number, each) for each in range(5000)]
    assert bridge.wake_ups < len(heard)


async def test_an_act_that_fails_does_not_hold_up_the_others() -> None:
    loop = asyncio.get_running_loop()
    faults: list[object] = []
    loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
    bridge = Bridge(loop)
    heard = asyncio.Event()
    bridge.post(lambda: 1 // 0)
    bridge.post(heard.set)
    async with asyncio.timeout(60):
        await heard.wait()
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


def test_after_the_loop_has_ended_nothing_happens() -> None:
    loop = asyncio.new_event_loop()
    bridge = Bridge(loop)
    loop.close()
    bridge.post(lambda: pytest.fail("nobody runs this"))
