"""Look-ups of state whose processes stand still, end or say nonsense; ``tests/wire/files`` has what sound ones do."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from milepost.errors import Problem
from milepost.wire import Code, Outcome
from milepost_server.basics.problems import problem
from milepost_server.basics.worker_pool import WorkerPool
from milepost_server.operations import lookups
from milepost_server.operations.lookups import Question, StateLookups

pytestmark = pytest.mark.anyio

SAYS = """
import struct, sys, json
for said in json.loads(sys.argv[1]):
    head = sys.stdin.buffer.read(8)
    text, more = struct.unpack(">II", head)
    sys.stdin.buffer.read(text + more)
    told = json.dumps(said).encode()
    sys.stdout.buffer.write(struct.pack(">II", len(told), 0) + told)
    sys.stdout.flush()
"""
QUESTION = Question("state", '["JFK"]', None, None, 0, 10)


def looking_up(program: list[str], seconds: float = 60.0, **parts: Any) -> tuple[StateLookups, WorkerPool]:
    pool = WorkerPool(program, most=1, idle_seconds=1)
    given = {"states": Mock(), "files": Mock(), "trees": Mock(), **parts}
    return StateLookups(pool, given["states"], given["files"], given["trees"], seconds), pool


def saying(*messages: Any) -> list[str]:
    return [sys.executable, "-P", "-c", SAYS, json.dumps(messages)]


async def refused(program: list[str], seconds: float = 60.0, **parts: Any) -> Problem:
    found, pool = looking_up(program, seconds, **parts)
    with pytest.raises(Problem) as raised:
        await found.look_up("flights", QUESTION)
    await pool.close()
    assert pool.waiting == 0
    return raised.value


async def test_one_that_stands_still_is_given_up() -> None:
    error = await refused([sys.executable, "-c", "import time; time.sleep(600)"], 0.5)
    assert (error.code, error.outcome) == (Code.STORAGE_UNAVAILABLE, Outcome.NOT_APPLIED)


@pytest.mark.parametrize(
    "program",
    [
        saying(),
        saying({"answer": {"version": "x"}}),
        saying({"answer": 5}),
        saying({"ask": "write", "name": "x"}),
        saying({"ask": "read", "name": "x", "start": -1, "length": 5}),
        saying({"refusal": "no code", "why": ""}),
        saying({}),
    ],
)
async def test_one_that_ends_or_says_nonsense_is_told_after_a_second_try(
    program: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    error = await refused(program)
    assert (error.code, error.outcome) == (Code.INTERNAL, Outcome.NOT_APPLIED)
    assert "another one is asked" in caplog.text


async def test_a_refusal_keeps_its_code_and_a_failure_that_of_what_failed() -> None:
    assert (await refused(saying({"refusal": "corrupt", "why": "x"}))).code is Code.CORRUPT
    away = AsyncMock(read=AsyncMock(side_effect=problem(Code.NO_LEADER, "it leads no more")))
    asked = {"ask": "handle", "name": "job"}
    failed = {"refusal": "failed", "why": "x"}
    assert (await refused(saying(asked, failed), states=away)).code is Code.NO_LEADER
    assert (await refused(saying(failed))).code is Code.INTERNAL


async def test_no_more_is_read_than_fits_into_memory() -> None:
    entry = Mock(size=1 << 40)

    async def read(_at: Any, _version: Any, span_of: Callable[[Any], Any]) -> None:
        span_of(entry)
        raise AssertionError("it should have been refused")

    asked = {"ask": "read", "name": "x", "start": 0, "length": 1 << 39}
    found = await refused(saying(asked, {"refusal": "failed", "why": "x"}), files=Mock(read=read))
    assert found.code is Code.NOT_SUPPORTED


async def test_only_so_many_wait() -> None:
    found, pool = looking_up([sys.executable, "-c", "import time; time.sleep(600)"], 5.0)
    waiting = [asyncio.create_task(found.look_up("flights", QUESTION)) for _ in range(40)]
    done, _ = await asyncio.wait(waiting, timeout=60.0)
    codes = [task.exception().code for task in done]  # type: ignore[union-attr]
    assert len(codes) == 40
    assert codes.count(Code.TOO_MANY_REQUESTS) == 8
    assert codes.count(Code.STORAGE_UNAVAILABLE) == 32
    await pool.close()


async def test_without_what_decodes_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "_NEEDED", ("no_such_module",))
    found, _ = looking_up(saying())
    with pytest.raises(Problem) as raised:
        await found.look_up("flights", QUESTION)
    assert raised.value.code is Code.NOT_SUPPORTED
    assert "no_such_module" in raised.value.detail
