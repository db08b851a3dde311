"""Processes that have something done apart: kept, replaced, given up, and gone in the end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from milepost_server.basics.worker_pool import Worker, WorkerEnded, WorkerPool
from tests.support.waiting import until

ECHO = """
import os, struct, sys, json
while head := sys.stdin.buffer.read(8):
    text, more = struct.unpack(">II", head)
    sent, content = json.loads(sys.stdin.buffer.read(text)), sys.stdin.buffer.read(more)
    told = json.dumps({**sent, "pid": os.getpid(), "environment": sorted(os.environ)}).encode()
    sys.stdout.buffer.write(struct.pack(">II", len(told), more) + told + content)
    sys.stdout.flush()
"""
SECONDS = 60.0

pytestmark = pytest.mark.anyio


def running(program: str, **settings: float) -> WorkerPool:
    given = {"most": 2, "idle_seconds": SECONDS, **settings}
    return WorkerPool(
        [sys.executable, "-P", "-c", program], most=int(given["most"]), idle_seconds=given["idle_seconds"]
    )


@pytest.fixture
async def echoing() -> AsyncIterator[WorkerPool]:
    pool = running(ECHO)
    yield pool
    await pool.close()


async def pid_of(worker: Worker) -> int:
    await worker.send({"number": 1})
    told, _ = await worker.receive()
    assert told["number"] == 1
    return int(told["pid"])


async def exchange(pool: WorkerPool) -> dict[str, Any]:
    async with asyncio.timeout(SECONDS), pool.borrow() as worker:
        await worker.send({"number": 1})
        return (await worker.receive())[0]


async def are_there(pids: list[int]) -> bool:
    return bool(pids)


async def has_gone(pid: int) -> bool:
    return is_gone(pid)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def test_a_process_is_kept_and_sees_no_secrets(echoing: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    async with echoing.borrow() as worker:
        first = await pid_of(worker)
        await worker.send({}, b"\0" * 300_000)
        told, content = await worker.receive()
        assert content == b"\0" * 300_000
        assert "AWS_SECRET_ACCESS_KEY" not in told["environment"]
    async with echoing.borrow() as worker:
        assert await pid_of(worker) == first
        async with echoing.borrow() as other:
            assert await pid_of(other) != first
    await echoing.close()
    assert is_gone(first)


async def test_no_more_than_so_many_are_at_work(echoing: WorkerPool) -> None:
    order: list[str] = []

    async def use(name: str) -> None:
        async with echoing.borrow() as worker:
            await pid_of(worker)
            order.append(name)

    async with echoing.borrow(), echoing.borrow():
        assert echoing.waiting == 2
        third = asyncio.create_task(use("third"))
        await asyncio.sleep(0.1)
        assert (order, echoing.waiting) == ([], 3)
        order.append("first two")
    await asyncio.wait_for(third, SECONDS)
    assert (order, echoing.waiting) == (["first two", "third"], 0)


@pytest.mark.parametrize("how", ["an exception", "a cancellation"])
async def test_a_process_that_was_left_in_the_middle_is_killed(echoing: WorkerPool, how: str) -> None:
    pids: list[int] = []

    async def use() -> None:
        async with echoing.borrow() as worker:
            pids.append(await pid_of(worker))
            if how == "an exception":
                raise ZeroDivisionError
            await asyncio.sleep(SECONDS)

    task = asyncio.create_task(use())
    await until(lambda: are_there(pids))
    if how == "a cancellation":
        task.cancel()
    done, _ = await asyncio.wait((task,), timeout=SECONDS)
    assert [one.cancelled() or isinstance(one.exception(), ZeroDivisionError) for one in done] == [True]
    assert is_gone(pids[0])
    async with echoing.borrow() as worker:
        assert await pid_of(worker) != pids[0]


async def test_one_that_died_while_it_waited_is_told(echoing: WorkerPool) -> None:
    async with echoing.borrow() as worker:
        first = await pid_of(worker)
    os.kill(first, 9)
    await until(lambda: has_gone(first))
    with suppress(WorkerEnded):  # or it is known by now that it is gone
        await exchange(echoing)
    async with echoing.borrow() as worker:
        assert await pid_of(worker) != first


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(3)",
        "print('no message', flush=True); import time; time.sleep(60)",
        "import sys; sys.stdout.buffer.write(bytes([255] * 8)); sys.stdout.flush(); sys.stdin.read()",
        r"import sys; sys.stdout.buffer.write(b'\0\0\0\1\0\0\0\0[') ; sys.stdout.flush(); sys.stdin.read()",
        r"import sys; sys.stdout.buffer.write(b'\0\0\0\2\0\0\0\0[]') ; sys.stdout.flush(); sys.stdin.read()",
    ],
)
async def test_what_is_no_message_is_told(program: str) -> None:
    pool = running(program)
    with pytest.raises(WorkerEnded):
        await exchange(pool)
    await pool.close()


async def test_a_program_that_is_not_there() -> None:
    pool = WorkerPool(["/no/such/program"], most=1, idle_seconds=1)
    for _ in range(2):
        with pytest.raises(WorkerEnded, match="cannot be started"):
            async with pool.borrow():
                pass
    assert pool.waiting == 0


async def test_what_has_nothing_to_do_is_ended() -> None:
    pool = running(ECHO, idle_seconds=0.2)
    async with pool.borrow() as worker:
        first = await pid_of(worker)
    await until(lambda: has_gone(first))
    async with pool.borrow() as worker:
        assert await pid_of(worker) != first
    await pool.close()
